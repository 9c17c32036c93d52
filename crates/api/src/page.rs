//! The page on `/`, and the one on `/api/docs` that shows the OpenAPI document: static files in the binary, which ask
//! this API like anyone else.
//!
//! The page carries no data and needs no token; its script asks for one and keeps it in the tab's session storage.
//! The policy forbids everything that does not come from this server, and all inline code.

use std::future::ready;
use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use http::header;

use crate::state::State;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

fn file(kind: &'static str, text: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, text).into_response()
}

/// The files of the pages, by path. They are no part of the API, and the document of the API does not know them.
pub(crate) fn files() -> [(&'static str, MethodRouter<Arc<State>>); 6] {
    const HTML: &str = "text/html; charset=utf-8";
    const STYLE: &str = "text/css; charset=utf-8";
    const SCRIPT: &str = "text/javascript; charset=utf-8";
    [
        ("/", HTML, include_str!("../assets/index.html")),
        ("/page.css", STYLE, include_str!("../assets/page.css")),
        ("/page.js", SCRIPT, include_str!("../assets/page.js")),
        ("/api/docs", HTML, include_str!("../assets/docs.html")),
        ("/docs.css", STYLE, include_str!("../assets/docs.css")),
        ("/docs.js", SCRIPT, include_str!("../assets/docs.js")),
    ]
    .map(|(path, kind, text)| (path, get(move || ready(file(kind, text)))))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_asks_nobody_else_and_has_no_inline_code() {
        let html = [include_str!("../assets/index.html"), include_str!("../assets/docs.html")].concat();
        let styles = [include_str!("../assets/page.css"), include_str!("../assets/docs.css")].concat();
        let scripts = [include_str!("../assets/page.js"), include_str!("../assets/docs.js")].concat();
        let all = [html.clone(), styles, scripts].concat();
        for forbidden in ["http://", "https://", "//cdn", "@import", "innerHTML", "eval("] {
            assert!(!all.contains(forbidden), "{forbidden}");
        }
        for forbidden in [" style=", " onclick=", "<style", "javascript:"] {
            assert!(!html.contains(forbidden), "{forbidden}");
        }
        assert_eq!(html.matches("<script").count(), html.matches("<script src=\"/").count());
    }

    #[test]
    fn every_text_of_the_page_has_both_languages() {
        let script = include_str!("../assets/page.js");
        let keys = |language: &str| -> Vec<String> {
            let from = script.find(&format!("  {language}: {{")).unwrap();
            let block = &script[from..];
            let block = &block[..block.find("\n  },").unwrap()];
            block
                .lines()
                .skip(1)
                .filter_map(|line| line.trim().split_once(':'))
                .map(|(key, _)| key.to_owned())
                .collect()
        };
        assert_eq!(keys("en"), keys("zh"));
        let html = include_str!("../assets/index.html");
        for used in html.split("data-text=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(keys("en").iter().any(|key| key == used), "{used}");
        }
    }
}
