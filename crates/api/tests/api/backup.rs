//! A backup over the API: whole, refused, or cut off so that nobody takes it for whole.

use axum::body::{Body, to_bytes};
use http::{Request, StatusCode};
use tower::ServiceExt;

use crate::world::{ADMIN, World, refusal};

async fn ask(world: &World, query: &str) -> (StatusCode, Result<Vec<u8>, axum::Error>) {
    let request =
        Request::get(format!("/api/v1/server/backup{query}")).header("authorization", format!("Bearer {ADMIN}"));
    let answer = rota_api::router(world.state.clone()).oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    (answer.status(), to_bytes(answer.into_body(), 16 << 20).await.map(|bytes| bytes.to_vec()))
}

#[tokio::test]
async fn it_is_carried_over_in_pieces_and_in_order() {
    let (status, body) = ask(&World::new(), "").await;
    let body = body.unwrap();
    assert_eq!((status, body.len()), (StatusCode::OK, 5 + 600_000 + 4));
    assert!(body.starts_with(b"firstx") && body.ends_with(b"xlast"));
}

#[tokio::test]
async fn one_that_fails_on_the_way_is_cut_off() {
    let (status, body) = ask(&World::new(), "?key=true").await;
    assert_eq!(status, StatusCode::OK);
    assert!(body.is_err(), "an answer that ends well would be taken for whole");
}

#[tokio::test]
async fn what_fails_before_the_first_byte_is_a_refusal() {
    let world = World::new();
    let (status, answer) = world.call("GET", "/api/v1/server/backup?logs=true", ADMIN, "").await;
    assert_eq!(refusal(status, &answer).1, "overloaded");
    let (status, answer) = world.call("GET", "/api/v1/server/backup?logs=1", ADMIN, "").await;
    let (status, code, field, _) = refusal(status, &answer);
    assert_eq!((status, code.as_str(), field.as_str()), (400, "invalid", "logs"));
}
