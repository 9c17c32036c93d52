//! Prints the OpenAPI document as it stands in `docs/openapi.json`: `make openapi`.

fn main() {
    let document = rota_api::openapi(env!("CARGO_PKG_VERSION"));
    println!("{document:#}");
}
