use proptest::prelude::*;

use super::*;

const MIB: usize = 1 << 20;

fn at(text: &str) -> UnixMs {
    UnixMs::parse_rfc3339(text).unwrap()
}

/// Writes a template for a fixed attempt whose namespace has two secrets.
fn written(text: &str, zone: &str, bytes_max: usize) -> Result<String, Failed> {
    written_for("nightly settle", text, zone, bytes_max)
}

fn written_for(job_name: &str, text: &str, zone: &str, bytes_max: usize) -> Result<String, Failed> {
    let zone = Zone::parse(zone).unwrap();
    let secret = |name: &str| match name {
        "PARTNER" => Some("s3cret value".to_owned()),
        "JSON" => Some("a\"b\\c\n".to_owned()),
        _ => None,
    };
    let context = Context {
        slot: at("2026-12-01T02:00:00+08:00"),
        zone: &zone,
        shard: 2,
        shards: 8,
        shard_param: "north",
        run: RunId(1 << 40),
        attempt: AttemptId(77),
        no: 3,
        job: JobId(1_000_000_001),
        job_name,
        version: Version(14),
        origin: Origin::Schedule,
        app: "pay",
        namespace: "shop",
        secret: &secret,
    };
    Template::parse(text).unwrap().expect("it has an expression").write(&context, bytes_max)
}

fn check_as(job_name: &str, text: &str, expected: &str) {
    assert_eq!(written_for(job_name, text, "Asia/Shanghai", MIB).as_deref(), Ok(expected), "{text}");
}

fn check(text: &str, expected: &str) {
    assert_eq!(written(text, "Asia/Shanghai", MIB).as_deref(), Ok(expected), "{text}");
}

#[test]
fn names_say_what_the_attempt_is() {
    check("{{slot}}", "2026-12-01T02:00:00+08:00");
    check("{{ slot.unix }} {{slot.ms}}", "1796061600 1796061600000");
    check("{{shard.index}}/{{shard.total}}", "2/8");
    check("{{shard.param}} {{shard.param|upper}}", "north NORTH");
    check("{{run}} {{run.id}} {{attempt}} {{attempt.id}}", &format!("{} {} 3 77", RunId(1 << 40), 1_u64 << 40));
    check("{{idempotency_key}}", &format!("{}/2", 1_u64 << 40));
    check("{{job}} {{job.id}} v{{version}}", "nightly settle 1000000001 v14");
    check("{{app}} {{namespace}} {{origin}} {{timezone}}", "pay shop schedule Asia/Shanghai");
    check("Bearer {{secret.PARTNER}}", "Bearer s3cret value");
}

#[test]
fn filters_change_what_stands_before_them() {
    check("{{slot|date('%F')}}", "2026-12-01");
    check("{{slot|date('%F','UTC')}}", "2026-11-30");
    check("{{ slot | minus('1d') | date( '%Y/%m/%d' ) }}", "2026/11/30");
    check("{{slot|minus('1mo')|date('%Y-%m')}}", "2026-11");
    check("{{slot|plus('2w')|plus('1y')|date('%F')}}", "2027-12-15");
    check("{{slot|minus('90s')|plus('1m')|plus('1h')}}", "2026-12-01T02:59:30+08:00");
    check("{{slot|minus('1d')|unix}} {{slot|plus('1s')|ms}}", "1795975200 1796061601000");
    check("{{job|upper}} {{'ÄB'|lower}}", "NIGHTLY SETTLE äb");
    check("{\"x\":\"{{secret.JSON|json}}\"}", "{\"x\":\"a\\\"b\\\\c\\n\"}");
    check("{{'a b/ü'|url}}", "a%20b%2F%C3%BC");
    check("{{'a'|base64}} {{'ab'|base64}} {{'abc'|base64}} {{''|base64}}", "YQ== YWI= YWJj ");
    check("{{slot|lower}}", "2026-12-01t02:00:00+08:00");
}

#[test]
fn what_is_no_expression_is_meant_as_it_is() {
    check("{{'{{'}} x }} {{'}}'}}", "{{ x }} }}");
    check("{\"a\":{\"b\":{{slot.ms}}}}", "{\"a\":{\"b\":1796061600000}}");
    for text in ["", "plain", "{ {slot} }", "{\"a\":{\"b\":{}}}", "}}"] {
        assert_eq!(Template::parse(text), Ok(None), "{text}");
    }
}

#[test]
fn a_day_is_a_day_of_the_jobs_zone() {
    let of = |text: &str| written(text, "Europe/Berlin", MIB).unwrap();
    // 19:00 in Berlin; winter time began on the 25th of October.
    assert_eq!(of("{{slot|minus('40d')}}"), "2026-10-21T19:00:00+02:00");
    assert_eq!(of("{{slot|minus('960h')}}"), "2026-10-21T20:00:00+02:00");
}

fn refused(text: &str, place: usize, message: &str, hint: &str) {
    let error = Template::parse(text).unwrap_err();
    assert_eq!((error.at, error.message.as_str()), (place, message), "{text}: {error:?}");
    assert!(error.hint.as_deref().unwrap_or_default().contains(hint), "{text}: {error:?}");
}

#[test]
fn a_mistake_is_named_with_its_place_and_what_would_be_right() {
    refused("{{slott}}", 3, "`slott` is not known in a template", "did you mean `slot`?");
    refused("日期 {{ shard.idx }}", 7, "`shard.idx` is not known in a template", "did you mean `shard.index`?");
    refused("{{.Values.name}}", 3, "`.Values.name` is not known in a template", "{{'{{'}}");
    refused("{{ secrets }}", 4, "`secrets` is not known in a template", "did you mean `secret.NAME`?");
    refused("{{secret}}", 3, "`secret` names no secret", "secret.PARTNER");
    refused("{{secret.a.b}}", 3, "`secret.a.b` names no secret", "secret.PARTNER");
    refused("{{}}", 3, "nothing stands between the braces", "slot, slot.unix");
    refused("a {{slot", 3, "`{{` is not closed", "close it with `}}`");
    refused("{{slot\n", 1, "`{{` is not closed", "");
    refused("{{slot}", 7, "`}` is not expected here", "");
    refused("{{{slot}}}", 3, "`{` is not expected here", "{{'{{'}}");
    refused("{{slot date}}", 8, "`d` is not expected here", "{{slot|date('%F')}}");
    refused("{{slot|dat('%F')}}", 8, "`dat` is no filter", "did you mean `date('%F')` or `date('%F', 'UTC')`?");
    refused("{{slot|strftime}}", 8, "`strftime` is no filter", "filters are date, minus, plus");
    refused("{{slot|}}", 8, "a filter is expected here", "filters are");
    refused("{{slot|date}}", 8, "`date` is not written so", "`date('%F')`");
    refused("{{slot|lower('x')}}", 8, "`lower` is not written so", "`lower`");
    refused("{{slot|date(\"%F\")}}", 13, "text in single quotes is expected here", "date('%F')");
    refused("{{slot|date('%F}}", 13, "the quote is not closed", "");
    refused("{{slot|date('%F' 'UTC')}}", 18, "`)` is expected here", "");
    refused("{{slot|date('a%Q')}}", 15, "`%Q` is not known in a date format", "%F");
    refused(
        "{{slot|date('%F','Asia/Shangai')}}",
        19,
        "unknown time zone \"Asia/Shangai\", expected an IANA name or an offset like +08:00",
        "Asia/Shanghai",
    );
    refused("{{slot|minus('1x')}}", 15, "`1x` is not a step", "1d");
    refused("{{slot|minus('100001d')}}", 15, "`100001d` is not a step", "100000");
    refused("{{slot|minus('-1d')}}", 15, "`-1d` is not a step", "");
    refused("{{job|date('%F')}}", 7, "`date` takes an instant, and what is before it is text", "slot|");
    refused("{{slot|unix|date('%F')}}", 13, "`date` takes an instant, and what is before it is text", "");
    refused(
        "{{slot|lower|lower|lower|lower|lower|lower|lower|lower|lower}}",
        55,
        "an expression has at most 8 filters",
        "",
    );
    refused(&"{{slot}}".repeat(1_001), 8_001, "a template has at most 1000 expressions", "");
}

#[test]
fn what_cannot_be_written_says_why_and_shows_no_value() {
    let failed = |text: &str, bytes_max| written(text, "UTC", bytes_max).unwrap_err();
    let unknown = failed("{{secret.OTHER}}", MIB);
    assert_eq!(
        (unknown.why, unknown.message.as_str()),
        (Why::SecretUnknown, "secret OTHER is not set in namespace shop")
    );
    for (text, bytes_max) in [("{{secret.PARTNER}}{{secret.PARTNER}}", 20), ("{{secret.PARTNER|url|url|url}}", 15)] {
        let large = failed(text, bytes_max);
        assert_eq!(large.why, Why::TemplateFailed);
        assert!(!large.message.contains("s3cret"), "{large}");
    }
    assert_eq!(
        failed("{{slot|minus('100000d')}}", MIB).message,
        "`minus('100000d')` leads out of the years 1970 to 2199"
    );
}

#[test]
fn secrets_are_named() {
    let template = Template::parse("{{secret.B}} {{secret.A|url}} {{slot}} {{secret.B}}").unwrap().unwrap();
    assert_eq!(template.secrets().into_iter().collect::<Vec<_>>(), ["A", "B"]);
    assert!(!template.is_secret_alone());
    assert!(Template::parse("{{secret.A|base64}}").unwrap().unwrap().is_secret_alone());
    assert!(!Template::parse("x{{secret.A}}").unwrap().unwrap().is_secret_alone());
}

/// Text that is often a template, and often nearly one.
fn nearly() -> impl Strategy<Value = String> {
    let token = prop::sample::select(vec![
        "{{",
        "}}",
        "{",
        "}",
        "|",
        "(",
        ")",
        ",",
        "'",
        " ",
        "slot",
        "slot.ms",
        "run",
        "secret.PARTNER",
        "secret.",
        "date",
        "'%F'",
        "'%q%Z'",
        "'UTC'",
        "minus",
        "'1d'",
        "'9mo'",
        "'99999y'",
        "url",
        "json",
        "base64",
        "upper",
        "x",
        "日",
    ]);
    prop::collection::vec(token, 0..24).prop_map(|tokens| tokens.concat())
}

/// Templates that are well formed.
fn whole() -> impl Strategy<Value = String> {
    let expression = prop::sample::select(vec![
        "{{ slot }}",
        "{{slot|minus('3mo')|date('%F %T')}}",
        "{{slot|plus('1d')|ms|url}}",
        "{{ job | upper|json }}",
        "{{'{{'}}",
        "{{ '' }}",
        "{{secret.PARTNER|base64}}",
        "{{slot|date('%j','+05:30')}}",
        "{{shard.index}}",
    ]);
    let text = prop::sample::select(vec!["", " ", "}}", "{\"a\":", "日期", "x'y", "a|b"]);
    prop::collection::vec((text, expression), 1..8)
        .prop_map(|parts| parts.into_iter().map(|(text, expression)| format!("{text}{expression}")).collect())
}

proptest! {
    #[test]
    fn what_is_printed_is_read_as_the_same_template(text in whole()) {
        let template = Template::parse(&text).unwrap().unwrap();
        prop_assert_eq!(Template::parse(&template.to_string()).unwrap().unwrap(), template);
    }

    #[test]
    fn whatever_is_written_ends_in_a_text_within_its_bound_or_in_a_reason(
        text in prop_oneof![nearly(), whole(), any::<String>()],
        zone in prop::sample::select(vec!["UTC", "Asia/Shanghai", "America/New_York", "+05:30"]),
        bytes_max in prop::sample::select(vec![0, 40, MIB]),
    ) {
        match Template::parse(&text) {
            Ok(Some(_)) => match written(&text, zone, bytes_max) {
                Ok(written) => prop_assert!(written.len() <= bytes_max),
                Err(failed) => prop_assert!(!failed.message.is_empty()),
            },
            Ok(None) => prop_assert!(!text.contains("{{")),
            Err(error) => prop_assert!(error.at >= 1 && error.at <= text.chars().count() + 1),
        }
    }
}

/// The lines of the fenced blocks of this kind on the page about templates.
fn on_the_page(kind: &str) -> Vec<String> {
    let page = include_str!("../../../../docs/templates.md");
    let fence = format!("```{kind}\n");
    let blocks = page.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.flat_map(str::lines).map(str::to_owned).collect()
}

#[test]
fn the_page_says_what_is_so() {
    let examples = on_the_page("template");
    assert!(examples.len() >= 14);
    for line in examples {
        let (template, expected) = line.split_once(" => ").unwrap();
        check_as("settle", template, expected);
    }
    let dates = on_the_page("dates");
    assert_eq!(dates.len(), rota_cron::DIRECTIVES.len());
    for (line, (letters, _)) in dates.iter().zip(rota_cron::DIRECTIVES) {
        let (letter, expected) = line.split_once(' ').unwrap();
        assert_eq!(letter, format!("%{letters}"));
        check(&format!("{{{{slot|date('{letter}')}}}}"), expected.trim_matches('"'));
    }
    let page = include_str!("../../../../docs/templates.md");
    let words = NAMES.iter().map(|(name, _)| *name).chain(FILTERS.iter().map(|(form, _)| *form));
    for word in words {
        assert!(page.contains(&format!("`{word}`")), "the page does not tell of {word}");
    }
}
