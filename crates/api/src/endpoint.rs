//! One entry of the API: where it is, who may call it, what it takes and answers, and the handler that does it.
//!
//! The router and the OpenAPI document are made from the same entries, so that neither has what the other lacks.
//! What every call has in common (the refusals of tokens, bodies and reads, the argument `namespace`) is added here
//! and not said again at each entry.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::handler::Handler;
use axum::routing::{self, MethodRouter};
use serde_json::Value;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

use crate::code::Code;
use crate::state::State;
use crate::tag::{IF_MATCH, IF_NONE_MATCH};

/// Below this are the calls of people, programs and workers; the rest stands beside it.
pub(crate) const API: &str = "/api/v1";

/// Who may call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Opens {
    /// Anyone, without a token.
    All,
    /// `read` and `admin`.
    Readers,
    /// `admin`.
    Admins,
    /// The `worker` tokens of one app.
    Workers,
}

/// What an argument may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    /// Tags in quotes, or `*`.
    Tags,
    Text,
    /// A name, or a number that stands for it.
    Name,
    Number {
        min: u64,
        max: u64,
    },
    Word(&'static [&'static str]),
    /// True if it is there, unless it says `false`.
    Flag,
    /// RFC 3339, or a duration back from now.
    Instant,
}

/// An argument in the query string, or a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Arg {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    pub(crate) about: &'static str,
}

impl Arg {
    pub(crate) const fn new(name: &'static str, shape: Shape, about: &'static str) -> Arg {
        Arg { name, shape, about }
    }
}

/// The tenant that a call is about.
pub(crate) const NAMESPACE: Arg = Arg::new("namespace", Shape::Name, "the tenant; `default` if absent");
/// How many to list.
pub(crate) const LIMIT: Arg = Arg::new("limit", Shape::Number { min: 1, max: 1_000 }, "how many at most; 50 if absent");
/// Only what belongs to an app.
pub(crate) const APP: Arg = Arg::new("app", Shape::Name, "only of this app");
/// Only what belongs to a job.
pub(crate) const JOB: Arg = Arg::new("job", Shape::Name, "only of this job: its name or its id");

/// The schema of a body, by its name, with those that it refers to.
#[derive(Clone)]
pub(crate) struct Body {
    pub(crate) name: String,
    pub(crate) schemas: Vec<(String, RefOr<Schema>)>,
}

/// The schema of a type.
pub(crate) fn body<T: ToSchema>() -> Body {
    named::<T>(T::name().into_owned())
}

/// The schema of a part of a list.
pub(crate) fn page<T: ToSchema>() -> Body
where
    rota_wire::rest::Page<T>: ToSchema,
{
    let mut page = named::<rota_wire::rest::Page<T>>(format!("{}Page", T::name()));
    let mut of_items = body::<T>();
    page.schemas.append(&mut of_items.schemas);
    page
}

fn named<T: ToSchema>(name: String) -> Body {
    let mut schemas = Vec::new();
    T::schemas(&mut schemas);
    schemas.push((name.clone(), <T as PartialSchema>::schema()));
    Body { name, schemas }
}

/// What an answer carries.
#[derive(Clone)]
pub(crate) enum Content {
    Nothing,
    Json(Body),
    /// Events by name, each of which carries one of these as JSON.
    Events(Vec<(&'static str, Body)>),
    /// Text of this media type.
    Text(&'static str),
}

/// An answer that is no refusal.
#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) about: &'static str,
    pub(crate) content: Content,
    pub(crate) has_etag: bool,
}

/// One entry.
pub(crate) struct Endpoint {
    pub(crate) method: &'static str,
    /// With its parts in braces.
    pub(crate) path: String,
    pub(crate) route: MethodRouter<Arc<State>>,
    /// The operation's id in the document.
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) opens: Opens,
    pub(crate) args: Vec<Arg>,
    pub(crate) headers: Vec<Arg>,
    pub(crate) takes: Option<(Body, Value)>,
    pub(crate) answers: Vec<Answer>,
    pub(crate) codes: BTreeSet<Code>,
}

/// Refused to whoever has no token, or the wrong one.
const OF_TOKENS: [Code; 3] = [Code::TokenMissing, Code::TokenUnknown, Code::Forbidden];
/// Refused because of what was asked.
const OF_REQUESTS: [Code; 3] = [Code::Malformed, Code::UnknownField, Code::Invalid];
/// Refused because the server cannot read now.
const OF_READS: [Code; 5] =
    [Code::Overloaded, Code::StoreUnavailable, Code::StoreDamaged, Code::Internal, Code::NotReady];
/// Refused because no machine takes the command now, or none has answered yet.
const OF_COMMANDS: [Code; 2] = [Code::NotOwner, Code::Timeout];

impl Endpoint {
    fn new(method: &'static str, name: &'static str, path: &str, route: MethodRouter<Arc<State>>) -> Endpoint {
        let mut codes = BTreeSet::from(OF_REQUESTS);
        codes.extend(OF_READS);
        if method != "get" {
            codes.extend(OF_COMMANDS);
        }
        Endpoint {
            method,
            path: format!("{API}{path}"),
            route,
            name,
            about: "",
            opens: Opens::All,
            args: vec![NAMESPACE],
            headers: Vec::new(),
            takes: None,
            answers: Vec::new(),
            codes,
        }
    }

    /// An entry beside [`API`], which takes no arguments and refuses nothing.
    pub(crate) fn beside<H, T>(name: &'static str, path: &str, handler: H) -> Endpoint
    where
        H: Handler<T, Arc<State>>,
        T: 'static,
    {
        Endpoint {
            path: path.to_owned(),
            args: Vec::new(),
            codes: BTreeSet::new(),
            ..Endpoint::new("get", name, path, routing::get(handler))
        }
    }

    /// What it is for, in one sentence, with what a caller must know.
    pub(crate) fn says(mut self, about: &'static str) -> Endpoint {
        self.about = about;
        self
    }

    /// Who may call it.
    pub(crate) fn opens(mut self, opens: Opens) -> Endpoint {
        self.opens = opens;
        if opens != Opens::All {
            self.codes.extend(OF_TOKENS);
        }
        self
    }

    /// Arguments beside `namespace`.
    pub(crate) fn args(mut self, args: &[Arg]) -> Endpoint {
        self.args.extend_from_slice(args);
        self
    }

    /// Headers that it heeds.
    pub(crate) fn headers(mut self, headers: &[Arg]) -> Endpoint {
        self.headers.extend_from_slice(headers);
        self
    }

    /// It answers with a tag, and not at all if the caller has seen it.
    pub(crate) fn tagged(mut self) -> Endpoint {
        for answer in &mut self.answers {
            answer.has_etag = true;
        }
        self.headers.extend([IF_MATCH, IF_NONE_MATCH]);
        self.codes.insert(Code::VersionConflict);
        if self.method == "get" {
            let about = "it is as the caller has seen it";
            self.answers.push(Answer { status: 304, about, content: Content::Nothing, has_etag: true });
        }
        self
    }

    /// A JSON body, with an example of it that would be taken.
    pub(crate) fn takes<T: ToSchema>(mut self, example: Value) -> Endpoint {
        self.takes = Some((body::<T>(), example));
        self.codes.insert(Code::TooLarge);
        self
    }

    /// An answer with a JSON body.
    pub(crate) fn answers(mut self, status: u16, about: &'static str, body: Body) -> Endpoint {
        self.answers.push(Answer { status, about, content: Content::Json(body), has_etag: false });
        self
    }

    /// An answer with something else, or with nothing.
    pub(crate) fn answers_with(mut self, status: u16, about: &'static str, content: Content) -> Endpoint {
        self.answers.push(Answer { status, about, content, has_etag: false });
        self
    }

    /// Refusals beside those that all calls have.
    pub(crate) fn refuses(mut self, codes: &[Code]) -> Endpoint {
        self.codes.extend(codes);
        self
    }
}

macro_rules! methods {
    ($($method:ident)*) => {$(
        pub(crate) fn $method<H, T>(name: &'static str, path: &str, handler: H) -> Endpoint
        where
            H: Handler<T, Arc<State>>,
            T: 'static,
        {
            Endpoint::new(stringify!($method), name, path, routing::$method(handler))
        }
    )*};
}

methods! { get put post delete }
