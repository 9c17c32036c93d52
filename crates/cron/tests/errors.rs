//! Errors say what, where, and what would be right.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use rota_cron::{Cron, Dialect, ErrorCode, Schedule};

fn check(dialect: Dialect, expr: &str, code: ErrorCode, position: Option<usize>, message: &str, hint: &str) {
    let error = Cron::parse(expr, dialect).unwrap_err();
    assert_eq!((error.code, error.position), (code, position), "{expr}: {error:?}");
    assert!(error.message.contains(message), "{expr}: {error:?}");
    assert!(error.hint.as_deref().unwrap_or("").contains(hint), "{expr}: {error:?}");
    assert!(error.field.is_none_or(|field| error.message.starts_with(field)), "{expr}: {error:?}");
    assert_eq!(error.to_string(), error.message);
}

#[test]
fn unix_errors_name_the_place() {
    let check = |expr, code, position, message, hint| check(Dialect::Unix, expr, code, position, message, hint);
    check("", ErrorCode::Empty, None, "the expression is empty", "");
    check(" \t", ErrorCode::Empty, None, "the expression is empty", "");
    check("* * * *", ErrorCode::FieldCount, None, "4 fields, expected 5", "");
    check("0 0 2 * * ?", ErrorCode::FieldCount, None, "6 fields, expected 5", "Quartz dialect");
    check("CRON_TZ=UTC * * * * *", ErrorCode::FieldCount, None, "6 fields", "beside the expression");
    check("60 * * * *", ErrorCode::OutOfRange, Some(0), "minute: 60 is out of range, expected 0-59", "write 0");
    check("0 24 * * *", ErrorCode::OutOfRange, Some(2), "hour: 24 is out of range, expected 0-23", "write 0");
    check("0 0 * * 8", ErrorCode::OutOfRange, Some(8), "day of week: 8 is out of range, expected 0-7", "");
    check("0 0 * * ?", ErrorCode::QuestionMark, Some(8), "expected \"*\"", "0 0 0 * * ?");
    check("0 0 * * TUS", ErrorCode::BadName, Some(8), "unknown name \"TUS\", expected SUN-SAT", "did you mean TUE?");
    check("0 0 * JANUARY *", ErrorCode::BadName, Some(6), "month: unknown name", "did you mean JAN?");
    check("1,,2 * * * *", ErrorCode::BadSyntax, Some(2), "an item is missing", "");
    check("1- * * * *", ErrorCode::BadRange, Some(2), "a range has no end", "");
    check("0 22-2 * * *", ErrorCode::BadRange, Some(5), "range 22-2 goes backwards", "write 22-23,0-2");
    check("*/0 * * * *", ErrorCode::BadStep, Some(2), "a step of 0 never moves", "");
    check("*/ * * * *", ErrorCode::BadStep, Some(2), "a step has no number", "");
    check("*/60 * * * *", ErrorCode::BadStep, Some(2), "step 60 is larger than its field, expected 1-59", "");
    check("*/-5 * * * *", ErrorCode::BadStep, Some(2), "a step has no number", "");
    check("0.5 * * * *", ErrorCode::BadSyntax, Some(1), "unexpected \".\"", "");
    check("５ * * * *", ErrorCode::BadSyntax, Some(0), "unexpected \"５\"", "half-width");
    check("H * * * *", ErrorCode::NoSeed, Some(0), "hashed from the job's name", "");
    check("@every5m", ErrorCode::UnknownMacro, Some(0), "unknown macro", "@hourly");
    check("0 0 * * L", ErrorCode::BadSyntax, Some(8), "\"L\" needs a weekday", "");
    check(&"0,".repeat(600), ErrorCode::TooLong, None, "1200 bytes", "");
}

#[test]
fn quartz_errors_name_the_place_and_what_was_meant() {
    let check = |expr, code, position, message, hint| check(Dialect::Quartz, expr, code, position, message, hint);
    check("*/5 * * * *", ErrorCode::FieldCount, None, "5 fields, expected 6 or 7", "Unix dialect");
    check("@daily", ErrorCode::UnknownMacro, Some(0), "of the Unix dialect", "0 0 * * *");
    check(
        "0 0 12 * * *",
        ErrorCode::QuestionMark,
        Some(11),
        "expected \"?\" in one of them",
        "did you mean \"0 0 12 * * ?\"?",
    );
    check("0 0 12 * * 2", ErrorCode::QuestionMark, Some(11), "expected \"?\"", "did you mean \"0 0 12 ? * 2\"?");
    check("0 0 12 1 * 2", ErrorCode::QuestionMark, Some(11), "expected \"?\"", "two jobs");
    check("0 0 12 ? * ?", ErrorCode::QuestionMark, Some(11), "in both", "did you mean \"0 0 12 ? * *\"?");
    check("? 0 0 * * ?", ErrorCode::QuestionMark, Some(0), "second: \"?\" belongs in day of month", "");
    check("0 0 0 1,? * ?", ErrorCode::QuestionMark, Some(6), "must stand alone", "");
    check("0 0 0 ? * 0", ErrorCode::OutOfRange, Some(10), "expected 1-7", "Sunday is 1");
    check("0 0 0 ? * MON-FRI/2", ErrorCode::BadStep, Some(17), "ignored by Quartz", "");
    check("0 0 0 ? * 6-WED", ErrorCode::BadRange, Some(12), "mixes a name and a number", "");
    check("0 0 0 ? * 6LW", ErrorCode::BadSyntax, Some(12), "unexpected \"W\"", "");
    check("0 0 0 15W-20 * ?", ErrorCode::BadSyntax, Some(9), "unexpected \"-\"", "");
    check("0 0 0 L-31 * ?", ErrorCode::OutOfRange, Some(8), "expected 0-30", "");
    check("0 0 0 ? * 6#6", ErrorCode::OutOfRange, Some(12), "expected 1-5", "");
    check("0 0 0 1 1 ? 20x5", ErrorCode::OutOfRange, Some(12), "year: 20 is out of range, expected 1970-2199", "");
    check("0 0 0 1 1 ? 2030-2026", ErrorCode::BadRange, Some(17), "goes backwards", "");
    check("0 0 0 1 L ?", ErrorCode::BadName, Some(8), "month: unknown name \"L\"", "");
}

#[test]
fn drawn_numbers_do_not_make_a_text_too_long_to_be_read_again() {
    let hashed = format!("{}H * * * *", "H,".repeat(500));
    let error = Cron::parse_hashed(&hashed, Dialect::Unix, 1).map(|cron| cron.text().len());
    assert_eq!(error.unwrap_err().code, ErrorCode::TooLong);
}

#[test]
fn periods_have_bounds() {
    for ms in [0, 999, 86_400_000_001, u64::MAX] {
        assert_eq!(Schedule::every(ms).unwrap_err().code, ErrorCode::BadPeriod);
        assert_eq!(Schedule::delay(ms).unwrap_err().code, ErrorCode::BadPeriod);
    }
    assert!(Schedule::every(1_000).is_ok() && Schedule::delay(86_400_000_000).is_ok());
}
