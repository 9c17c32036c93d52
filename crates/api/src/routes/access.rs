//! Apps and tokens.

use rota_wire::rest;
use serde_json::json;

use crate::code::Code;
use crate::endpoint::{Endpoint, Opens, body, get, page, post, put};
use crate::{apps, tokens};

pub(super) fn entries() -> Vec<Endpoint> {
    vec![
        get("list_apps", "/apps", apps::list).says("Lists the apps of a namespace.").opens(Opens::Readers).answers(
            200,
            "the apps",
            page::<rest::App>(),
        ),
        put("put_app", "/apps/{name}", apps::put)
            .says("Makes an app, or changes its settings.")
            .opens(Opens::Admins)
            .takes::<rest::AppPut>(json!({"pending_max": 500}))
            .answers(200, "the app", body::<rest::App>()),
        post("make_app_token", "/apps/{name}/token", apps::token)
            .says("Makes a worker token for an app, or takes one over. The newest two are valid.")
            .opens(Opens::Admins)
            .takes::<rest::TokenAsk>(json!({}))
            .refuses(&[Code::AppUnknown, Code::WeakToken])
            .answers(200, "the token, shown this once", body::<rest::TokenMade>()),
        get("list_tokens", "/tokens", tokens::list)
            .says("Lists the valid tokens. None is shown again.")
            .opens(Opens::Admins)
            .answers(200, "the tokens", page::<rest::Token>()),
        post("make_token", "/tokens", tokens::create)
            .says("Makes a token. The newest two of the scope `read` are valid.")
            .opens(Opens::Admins)
            .takes::<rest::TokenNew>(json!({"scope": "read"}))
            .answers(201, "the token, shown this once", body::<rest::TokenShown>()),
    ]
}
