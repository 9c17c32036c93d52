//! Apps, tokens and secrets.

use rota_wire::rest;
use serde_json::json;

use crate::code::Code;
use crate::cursor::AFTER;
use crate::endpoint::{Arg, Endpoint, LIMIT, Opens, Shape, body, delete, get, page, post, put};
use crate::{apps, secrets, tokens};

const FORCE: Arg = Arg::new("force", Shape::Word(&["true", "false"]), "`true` removes it even if a job uses it");

pub(super) fn entries() -> Vec<Endpoint> {
    vec![
        get("list_apps", "/apps", apps::list)
            .says("Lists the apps of a namespace.")
            .opens(Opens::Readers)
            .args(&[AFTER, LIMIT])
            .answers(200, "the apps", page::<rest::App>()),
        get("get_app", "/apps/{name}", apps::get)
            .says("Shows an app.")
            .opens(Opens::Readers)
            .refuses(&[Code::AppUnknown])
            .answers(200, "the app", body::<rest::App>())
            .tagged(),
        put("put_app", "/apps/{name}", apps::put)
            .says("Makes an app, or changes its settings.")
            .opens(Opens::Admins)
            .takes::<rest::AppPut>(
                json!({"pending_max": 500, "rate": "50/s", "burst": 100, "groups": {"zone=a": {"rate": "10/s"}}}),
            )
            .answers(200, "the app", body::<rest::App>())
            .tagged(),
        post("make_app_token", "/apps/{name}/token", apps::token)
            .says("Makes a worker token for an app, or takes one over. The newest two are valid.")
            .opens(Opens::Admins)
            .takes::<rest::TokenAsk>(json!({}))
            .refuses(&[Code::AppUnknown, Code::WeakToken, Code::TokenInUse])
            .answers(200, "the token, shown this once", body::<rest::TokenMade>()),
        get("list_tokens", "/tokens", tokens::list)
            .says("Lists the valid tokens. None is shown again.")
            .opens(Opens::Admins)
            .args(&[AFTER, LIMIT])
            .answers(200, "the tokens", page::<rest::Token>()),
        post("make_token", "/tokens", tokens::create)
            .says("Makes a token. The newest two of the scope `read` are valid.")
            .opens(Opens::Admins)
            .takes::<rest::TokenNew>(json!({"scope": "read"}))
            .answers(201, "the token, shown this once", body::<rest::TokenShown>()),
        get("list_secrets", "/secrets", secrets::list)
            .says("Lists the secrets of a namespace by name, with the jobs that use them. No value is shown.")
            .opens(Opens::Admins)
            .answers(200, "the secrets", page::<rest::Secret>()),
        put("put_secret", "/secrets/{name}", secrets::put)
            .says("Sets a secret. The next dispatch uses it.")
            .opens(Opens::Admins)
            .takes::<rest::SecretPut>(json!({"value": "a value that nobody can guess"}))
            .answers(200, "the secret, without its value", body::<rest::Secret>()),
        delete("delete_secret", "/secrets/{name}", secrets::delete)
            .says("Removes a secret, unless a job uses it.")
            .opens(Opens::Admins)
            .args(&[FORCE])
            .refuses(&[Code::SecretUnknown, Code::SecretInUse])
            .answers(200, "the secret is removed", body::<rest::SecretRemoved>()),
    ]
}
