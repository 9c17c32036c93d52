//! The parts of a job that may be templates, and filling them in for a dispatch.
//!
//! A URL's scheme, host and port are never templates: whom a job may call is decided by them, when it is saved and
//! routed. A parameter that came with a trigger is passed as it is.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::write::Place;
use super::{Context, Error, Failed, Template};
use crate::job::{Body, Invalid, Target};
use crate::limits::PARAM_BYTES_MAX;
use crate::partition::Dispatch;

/// The templates of a job; each absent where the text stands for itself.
#[derive(PartialEq, Eq, Debug)]
pub struct Templates {
    param: Option<Template>,
    url: Option<Template>,
    headers: Vec<(String, Template)>,
    body: Option<Template>,
    /// What `{{shard.param}}` stands for, by shard; all blank if there is none.
    shard_params: Vec<String>,
}

impl Templates {
    /// Reads those of a target whose shards have these parameters. A handler that is given nothing else is given its
    /// shard's.
    pub fn with_params(target: &Target, params: &[String]) -> Result<Option<Box<Templates>>, Invalid> {
        let mut templates = Templates::of(target)?;
        let is_blank = matches!(target, Target::Handler { param, .. } if param.is_empty());
        if !params.is_empty() && is_blank {
            let whole = Template::parse("{{shard.param}}").map_err(|error| invalid("param", "", error))?;
            let none = Templates { param: None, url: None, headers: Vec::new(), body: None, shard_params: Vec::new() };
            templates = Some(Box::new(Templates { param: whole, ..none }));
        }
        let is_named = templates.iter().flat_map(|templates| templates.all()).any(Template::names_shard_param);
        let wrong = match (is_named, params.is_empty()) {
            (true, true) => {
                Some(("`{{shard.param}}` is asked for, and no shard has a parameter", "give shards.params"))
            }
            (false, false) => {
                Some(("nothing of the job asks for `{{shard.param}}`", "write it into what the shards are to be given"))
            }
            (true, false) | (false, true) => None,
        };
        if let Some((message, hint)) = wrong {
            let (message, hint) = (message.to_owned(), Some(hint.to_owned()));
            return Err(Invalid { field: "shards.params", message, hint });
        }
        if let Some(templates) = &mut templates {
            templates.shard_params = params.to_vec();
        }
        Ok(templates)
    }

    /// Reads those of a target; none if it has none, which is what most have.
    pub fn of(target: &Target) -> Result<Option<Box<Templates>>, Invalid> {
        let read = |field, text: &str| Template::parse(text).map_err(|error| invalid(field, "", error));
        let templates = match target {
            Target::Handler { param, .. } => {
                let param = read("param", param)?;
                Templates { param, url: None, headers: Vec::new(), body: None, shard_params: Vec::new() }
            }
            Target::Url { url, headers, body, .. } => {
                let mut read_headers = Vec::new();
                for (name, value) in headers {
                    let template = Template::parse(value);
                    let template = template.map_err(|error| invalid("http.headers", &format!("{name}: "), error))?;
                    read_headers.extend(template.map(|template| (name.clone(), template)));
                }
                Templates {
                    param: None,
                    url: read("http.url", url)?,
                    headers: read_headers,
                    body: read("http.body", body)?,
                    shard_params: Vec::new(),
                }
            }
        };
        let is_any = templates.all().next().is_some();
        Ok(is_any.then(|| Box::new(templates)))
    }

    /// The secrets that they name.
    #[must_use]
    pub fn secrets(&self) -> BTreeSet<&str> {
        self.all().flat_map(Template::secrets).collect()
    }

    /// The text of the URL that is no template's.
    pub(crate) fn url_texts(&self) -> Option<impl Iterator<Item = &str>> {
        self.url.as_ref().map(Template::texts)
    }

    fn all(&self) -> impl Iterator<Item = &Template> {
        let headers = self.headers.iter().map(|(_, template)| template);
        self.param.iter().chain(&self.url).chain(&self.body).chain(headers)
    }
}

fn invalid(field: &'static str, part: &str, error: Error) -> Invalid {
    Invalid { field, message: format!("{part}{error}"), hint: error.hint }
}

/// Fills in the templates of a dispatch; one without any is left as it is.
pub fn fill(
    send: &mut Dispatch,
    (namespace, app): (&str, &str),
    secret: &dyn Fn(&str) -> Option<String>,
) -> Result<(), Failed> {
    if send.body.templates.is_none() {
        return Ok(());
    }
    let body = Arc::clone(&send.body);
    let Some(templates) = &body.templates else { return Ok(()) };
    let context = Context {
        slot: send.slot,
        zone: &body.zone,
        shard: send.shard,
        shards: send.shards,
        shard_param: templates.shard_params.get(send.shard as usize).map_or("", String::as_str),
        run: send.run,
        attempt: send.attempt,
        no: send.no,
        job: send.job,
        job_name: &body.name,
        version: send.version,
        origin: send.origin,
        app,
        namespace,
        secret,
    };
    let write = |field: &str, place, template: &Option<Template>, text: &str| match template {
        Some(template) => template.write_in(place, &context, PARAM_BYTES_MAX).map_err(|failed| in_field(field, failed)),
        None => Ok(text.to_owned()),
    };
    match &body.target {
        Target::Handler { param, .. } => {
            if send.param.is_none() {
                send.param = Some(write("param", Place::Text, &templates.param, param)?.into());
            }
        }
        Target::Url { method, url, headers, body: text } => {
            let url = write("http.url", Place::Url, &templates.url, url)?;
            let mut headers = headers.clone();
            for (name, template) in &templates.headers {
                let value = template.write(&context, PARAM_BYTES_MAX);
                let value = value.map_err(|failed| in_field(&format!("http.headers.{name}"), failed))?;
                headers.insert(name.clone(), value);
            }
            let text = match send.param {
                Some(_) => String::new(),
                None => write("http.body", Place::Text, &templates.body, text)?,
            };
            let target = Target::Url { method: method.clone(), url, headers, body: text };
            send.body = Arc::new(Body::literal(body.name.clone(), body.zone.clone(), target));
        }
    }
    Ok(())
}

fn in_field(field: &str, failed: Failed) -> Failed {
    Failed { why: failed.why, message: format!("{field}: {}", failed.message) }
}

#[cfg(test)]
mod tests {
    use rota_cron::Zone;

    use super::*;
    use crate::batch::Origin;
    use crate::id::{AppId, AttemptId, Epoch, JobId, RunId, Version};
    use crate::job::{JobState, Spec, When};
    use crate::time::{Mono, UnixMs};
    use crate::why::Why;

    fn compiled(target: Target) -> Result<Arc<Body>, Invalid> {
        let spec = Spec::new(When::Manual, target);
        Ok(spec.compile(JobId::FIRST, Version(1), AppId(1), "ping", JobState::Enabled)?.body)
    }

    fn url(url: &str, headers: &[(&str, &str)], body: &str) -> Target {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Target::Url { method: "POST".to_owned(), url: url.to_owned(), headers, body: body.to_owned() }
    }

    fn handler(param: &str) -> Target {
        Target::Handler { name: "copy".to_owned(), param: param.to_owned() }
    }

    fn filled(target: Target, param: Option<&str>) -> Result<Dispatch, Failed> {
        let mut send = Dispatch {
            attempt: AttemptId(7),
            run: RunId(7),
            shard: 1,
            shards: 3,
            no: 1,
            app: AppId(1),
            job: JobId::FIRST,
            version: Version(1),
            origin: Origin::Api,
            slot: UnixMs(1_796_061_600_000),
            epoch: Epoch(1),
            worker: None,
            body: compiled(target).unwrap(),
            param: param.map(Arc::from),
            timeout_ms: None,
            parent: None,
            send_by: Mono(0),
        };
        let secret = |name: &str| (name == "KEY").then(|| "a/b c+d?".to_owned());
        fill(&mut send, ("shop", "pay"), &secret)?;
        assert!(!format!("{send:?}").contains("a/b"), "what was filled in does not print");
        Ok(send)
    }

    #[test]
    fn a_parameter_is_filled_in_and_one_of_a_trigger_is_meant_as_it_is() {
        assert_eq!(filled(handler("part {{shard.index}}"), None).unwrap().param.as_deref(), Some("part 1"));
        assert_eq!(filled(handler("part {{shard.index}}"), Some("{{x")).unwrap().param.as_deref(), Some("{{x"));
        assert_eq!(filled(handler("plain"), None).unwrap().param, None);
    }

    #[test]
    fn a_shard_is_given_its_own_parameter() {
        let body = |target: Target, params: &[&str]| {
            let mut spec = Spec::new(When::Manual, target);
            spec.shards = u32::try_from(params.len()).unwrap().max(1);
            spec.sharding.params = params.iter().map(|param| (*param).to_owned()).collect();
            spec.compile(JobId::FIRST, Version(1), AppId(1), "ping", JobState::Enabled).map(|job| job.body)
        };
        let given = |target, shard| {
            let mut send = filled(handler("x"), None).unwrap();
            (send.body, send.shard) = (body(target, &["{{a", "b", "c"]).unwrap(), shard);
            fill(&mut send, ("shop", "pay"), &|_| None).unwrap();
            send
        };
        assert_eq!(given(handler(""), 0).param.as_deref(), Some("{{a"), "it is no template itself");
        assert_eq!(given(handler("part {{shard.param}} of {{shard.total}}"), 2).param.as_deref(), Some("part c of 3"));
        let Target::Url { url: to, .. } = given(url("http://x/{{shard.param}}", &[], ""), 1).body.target.clone() else {
            panic!("it stays a request")
        };
        assert_eq!(to, "http://x/b");
        assert_eq!(body(handler("plain"), &["a"]).unwrap_err().field, "shards.params");
        assert_eq!(body(handler("{{shard.param}}"), &[]).unwrap_err().field, "shards.params");
    }

    #[test]
    fn a_request_is_filled_in_and_a_value_stays_in_its_part_of_the_url() {
        let target = url(
            "https://partner.example/day/{{slot|date('%Y/%m')}}?k={{secret.KEY}}&u={{secret.KEY|url}}",
            &[("authorization", "Bearer {{secret.KEY}}"), ("x-plain", "v")],
            "{{run.id}}",
        );
        let Target::Url { url: to, headers, body, .. } = filled(target.clone(), None).unwrap().body.target.clone()
        else {
            panic!("it stays a request")
        };
        assert_eq!(to, "https://partner.example/day/2026/11?k=a/b%20c%2Bd%3F&u=a%2Fb%20c%2Bd%3F");
        assert_eq!((headers["authorization"].as_str(), headers["x-plain"].as_str()), ("Bearer a/b c+d?", "v"));
        assert_eq!(body, "7");
        let given = filled(target, Some("own")).unwrap();
        assert_eq!(given.param.as_deref(), Some("own"));
        assert!(
            matches!(&given.body.target, Target::Url { headers, .. } if headers["authorization"].starts_with("Bearer a"))
        );
    }

    #[test]
    fn what_is_missing_is_named_with_its_field() {
        let failed = filled(url("http://x/", &[("X-Key", "{{secret.NO}}")], ""), None).unwrap_err();
        assert_eq!(failed.why, Why::SecretUnknown);
        assert_eq!(failed.message, "http.headers.X-Key: secret NO is not set in namespace shop");
    }

    fn refused(target: Target, field: &str, message: &str) {
        let invalid = compiled(target).unwrap_err();
        assert_eq!(invalid.field, field, "{invalid:?}");
        assert!(invalid.message.contains(message), "{invalid:?}");
        assert!(invalid.hint.is_some(), "{invalid:?}");
    }

    #[test]
    fn a_mistake_is_found_when_the_job_is_saved() {
        refused(handler("{{slott}}"), "param", "`slott` is not known in a template, at character 3");
        refused(url("http://x/", &[("X-Key", "{{slot")], ""), "http.headers", "X-Key: `{{` is not closed");
        refused(url("http://x/", &[], "{{}}"), "http.body", "nothing stands");
        refused(url("http://x/{{slott}}", &[], ""), "http.url", "`slott`");
        for there in [
            "http://{{job}}/",
            "http://{{job}}.example/",
            "http://x:{{shard.index}}/",
            "{{job}}://x/",
            "{{'http://x/'}}",
        ] {
            refused(url(there, &[], ""), "http.url", "are written out");
        }
        for (odd, problem) in [
            ("http://x/a b", "has a blank"),
            ("http://x/a b{{ slot }}", "has a blank"),
            ("http:/x", "is not an absolute http or https URL"),
            ("http:/x/{{job}}", "are written out"),
            ("http://user@x/{{job}}", "carries a user name"),
            ("http://x:0/{{job}}", "has a port"),
        ] {
            refused(url(odd, &[], ""), "http.url", problem);
        }
    }

    #[test]
    fn a_template_does_not_change_whom_a_job_calls() {
        let target = url("http://partner.example:81?day={{ slot | date('%Y/%m@%d') }}", &[], "");
        assert_eq!(target.host(), Some("partner.example:81"));
        let body = compiled(target).unwrap();
        assert_eq!(body.templates.as_ref().unwrap().secrets().len(), 0);
        assert!(compiled(url("http://x/", &[("a", "b")], "{ }}")).unwrap().templates.is_none());
        assert_eq!(Zone::utc(), body.zone);
    }
}
