//! Secrets, and the jobs that name them.

use rota_core::batch::Row;
use rota_core::id::JobId;
use rota_core::job::{Definition, JobState, Spec, Target, When};
use rota_core::worker::Secret;

use super::Open;
use super::fixture::{Bench, T, definition};
use crate::secrets::RETIRED_MAX;
use crate::store::{Reservation, Reserved, StoredSecret};

fn secret(namespace: &str, name: &str, value: &str) -> StoredSecret {
    StoredSecret {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        value: Secret(value.to_owned()),
        at: T,
        by: "someone".to_owned(),
    }
}

/// A secret has the value that was set last, in its own namespace, also when the store is opened again.
pub fn a_secret_is_set_replaced_and_removed(open: Open<'_>) {
    let mut bench = Bench::open(open);
    assert_eq!(bench.query.secrets(), Ok(Vec::new()));
    let (first, other) = (secret("shop", "PARTNER", "first"), secret("bank", "PARTNER", "other"));
    let second = StoredSecret { at: T.plus_ms(5), by: "another".to_owned(), ..secret("shop", "PARTNER", "密\n码") };
    for set in [&first, &other, &secret("shop", "A", ""), &second] {
        assert_eq!(bench.reserve(Reservation::Secret(set.clone())), Reserved::Done);
    }
    let mut bench = bench.reopen(open);
    assert_eq!(bench.query.secrets(), Ok(vec![other.clone(), secret("shop", "A", ""), second]));
    let gone = |namespace: &str, name: &str| Reservation::SecretBack {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        at: T.plus_ms(9),
    };
    assert_eq!(bench.reserve(gone("shop", "PARTNER")), Reserved::Done);
    assert_eq!(bench.reserve(gone("shop", "PARTNER")), Reserved::Unknown);
    assert_eq!(bench.reserve(gone("bank", "A")), Reserved::Unknown);
    assert_eq!(bench.query.secrets(), Ok(vec![other, secret("shop", "A", "")]));
}

/// What replaced or removed values said is known until what ended before they went is swept, but for the oldest of many.
pub fn values_that_went_out_of_use_are_kept_for_a_while(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let set = |value: &str, ms| StoredSecret { at: T.plus_ms(ms), ..secret("shop", "PARTNER", value) };
    for secret in [set("first", 0), set("first", 1), set("second", 2), set("third", 3), secret("bank", "B", "other")] {
        assert_eq!(bench.reserve(Reservation::Secret(secret)), Reserved::Done);
    }
    for (namespace, name) in [("shop", "PARTNER"), ("bank", "B")] {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        assert_eq!(bench.reserve(Reservation::SecretBack { namespace, name, at: T.plus_ms(4) }), Reserved::Done);
    }
    let mut bench = bench.reopen(open);
    let kept = |bench: &Bench| -> Vec<(String, i64)> {
        let all = bench.query.retired_secrets().unwrap();
        all.into_iter().map(|secret| (secret.value.0, secret.at.since_ms(T))).collect()
    };
    let expected = [("first", 2), ("second", 3), ("third", 4), ("other", 4)];
    assert_eq!(kept(&bench), expected.map(|(value, ms)| (value.to_owned(), ms)));
    bench.store.sweep(T.plus_ms(4), 0).unwrap();
    assert_eq!(kept(&bench), expected[2..].iter().map(|(value, ms)| ((*value).to_owned(), *ms)).collect::<Vec<_>>());
    let many = i64::try_from(RETIRED_MAX).unwrap() + 5;
    for ms in 10..10 + many {
        assert_eq!(bench.reserve(Reservation::Secret(set(&format!("value {ms}"), ms))), Reserved::Done);
    }
    let all = kept(&bench);
    assert_eq!(all.len(), RETIRED_MAX + 1, "those of another namespace are not touched");
    assert_eq!((&all[0].0, &all[1].0), (&"other".to_owned(), &"value 14".to_owned()));
}

fn request(job: JobId, version: u32, bench: &Bench, headers: &[(&str, &str)], body: &str) -> Definition {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let target = Target::Url {
        method: "POST".to_owned(),
        url: "https://partner.example/ping".to_owned(),
        headers,
        body: body.to_owned(),
    };
    Definition { spec: Spec::new(When::Manual, target), ..definition(job, version, bench.app, &format!("job-{job}")) }
}

/// What counts is the current version of a job that is not deleted.
pub fn jobs_that_name_a_secret_are_found(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let jobs: Vec<JobId> = (0..6).map(|n| bench.job(&format!("job-{n}"))).collect();
    let bearer = [("authorization", "Bearer {{secret.PARTNER}}")];
    let rows = vec![
        request(jobs[0], 2, &bench, &bearer, ""),
        request(jobs[1], 2, &bench, &[], "{{secret.A|json}}"),
        request(jobs[2], 2, &bench, &[("x-key", "literal")], "{{slot}}"),
        request(jobs[3], 2, &bench, &bearer, ""),
        request(jobs[3], 3, &bench, &[], "no more"),
        request(jobs[4], 2, &bench, &bearer, ""),
        request(jobs[5], 2, &bench, &bearer, ""),
    ];
    bench.commit(rows.into_iter().map(|definition| Row::Definition(Box::new(definition))).collect());
    bench.commit(vec![Row::JobState {
        job: jobs[4],
        state: JobState::Deleted,
        at: T,
        by: "someone".into(),
        reason: None,
    }]);
    let check = |after: JobId, limit: u32, expected: &[JobId]| {
        let found = bench.query.jobs_with_secrets(after, limit).unwrap();
        assert_eq!(found.iter().map(|job| job.id).collect::<Vec<_>>(), expected);
        assert!(found.iter().all(|job| bench.query.job(job.id).unwrap().as_ref() == Some(job)));
    };
    check(JobId(0), 10, &[jobs[0], jobs[1], jobs[5]]);
    check(JobId(0), 2, &[jobs[0], jobs[1]]);
    check(jobs[1], 10, &[jobs[5]]);
    check(jobs[5], 10, &[]);
}

/// Whatever a store does with the values of headers, whoever reads a version gets them back.
pub fn header_values_come_back_as_they_were(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let job = bench.job("settle");
    let second = request(job, 2, &bench, &[("authorization", "Basic dXNlcjpwYXNz"), ("x-empty", "")], "body");
    let third = request(job, 3, &bench, &[], "body");
    for definition in [&second, &third] {
        bench.commit(vec![Row::Definition(Box::new(definition.clone()))]);
    }
    let run = bench.run(1, job);
    let mut bench = bench.reopen(open);
    for version in [&second, &third] {
        assert_eq!(bench.query.job_version(job, version.version), Ok(Some(version.clone())));
    }
    bench.commit(vec![Row::Run(Box::new(rota_core::batch::Run { version: second.version, ..run }))]);
    let loaded = bench.claim();
    assert_eq!(loaded.jobs, vec![third]);
    assert_eq!(loaded.open[0].definition, Some(second));
}
