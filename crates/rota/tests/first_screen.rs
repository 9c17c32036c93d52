//! What the demo jobs show, what mistakes are answered, and a server with a worker of its own, without code. The way
//! through all commands is a story, see `tests/stories`.

mod support;

use support::{Running, json, rota, said, wait_for};

#[test]
fn the_demo_jobs_do_what_they_show() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let dev = Running::start(at, "dev --listen 127.0.0.1:0");
    dev.line_with("shown once");
    let worker = dev.line_with("worker ");
    assert!(worker.contains("online: echo, fail, sleep"), "{worker}");
    dev.line_with("retry");

    let flaky = wait_for(|| json(at, "runs --job flaky --limit 1")["items"][0].clone(), |run| run["is_ended"] == true);
    assert_eq!((&flaky["state"], &flaky["tries"]), (&"success".into(), &2.into()), "{flaky}");
    let story = said(at, &format!("why {}", flaky["run"].as_str().unwrap()), 0);
    assert!(story.contains("try 2") && story.contains("handler_failed (the handler reported a failure)"), "{story}");
    assert!(story.contains("+00:00") && !story.contains("UTC"), "every time has its offset: {story}");
    wait_for(|| json(at, "runs --job livez")["items"][0].clone(), |run| run["is_ended"] == true);
    let table = said(at, "runs --job livez", 0);
    assert!(table.contains("server") && table.contains("success"), "{table}");
    assert_eq!(dev.stop(), 0);
}

#[test]
fn what_waits_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let dev = Running::start(at, "dev --listen 127.0.0.1:0");
    dev.line_with("worker ");
    let why = "no_worker_for_handler (no online worker of the app offers the handler)";
    said(at, "job add stray --app demo --handler nobody-has-it", 0);
    let run = json(at, "run stray --no-follow")["run"].as_str().unwrap().to_owned();
    wait_for(|| said(at, &format!("why {run}"), 0), |story| story.contains(why));
    said(at, "job add held --app demo --handler nobody-has-it --every 1s", 0);
    wait_for(|| said(at, "job show held", 0), |shown| shown.contains("held") && shown.contains(why));
    let runs = said(at, "runs --job held", 0);
    assert!(runs.contains("no runs; 1 held (1 no_worker_for_handler), "), "{runs}");
    assert_eq!(dev.stop(), 0);
}

#[test]
fn mistakes_are_told_by_code_and_hint() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    assert!(said(at, "runs", 2).contains("ROTA_TOKEN"));
    assert!(said(at, "rnus", 2).contains("runs"));

    let dev = Running::start(at, "dev --listen 127.0.0.1:0");
    dev.line_with("worker ");
    let zone = said(at, "job add x --app demo --handler echo --cron @daily --timezone Asia/Shanghi", 2);
    assert!(zone.contains("timezone") && zone.contains("Asia/Shanghai"), "{zone}");
    let taken = said(at, "job add hello --app demo --handler echo", 1);
    assert!(taken.contains("name_taken"), "{taken}");
    assert!(said(at, "why rzzzzz --json", 1).contains("run_unknown"));
    assert!(said(at, "dev --fresh --listen 127.0.0.1:0", 2).contains("in use"));
    assert!(said(at, "serve --data .rota/dev --listen 127.0.0.1:0", 1).contains("in use"));
    assert_eq!(dev.stop(), 0);
}

#[test]
fn a_playground_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let dev = Running::start(at, "dev --listen 127.0.0.1:0");
    dev.line_with("worker ");
    said(at, "job add mine --app demo --handler echo --param hi", 0);
    dev.kill();

    let dev = Running::start(at, "dev --listen 127.0.0.1:0");
    dev.line_with("where the CLI finds it");
    dev.line_with("worker ");
    said(at, "job show mine", 0);
    let url = json(at, "job show livez")["spec"]["http"]["get"].clone();
    let server = std::fs::read_to_string(at.join(".rota/cli.toml")).unwrap();
    let address = url.as_str().unwrap().strip_suffix("/livez").unwrap();
    assert!(server.contains(address), "its own URL job follows its address: {url}");
    assert_eq!(dev.stop(), 0);

    let dev = Running::start(at, "dev --fresh --listen 127.0.0.1:0");
    dev.line_with("worker ");
    said(at, "job show mine", 1);
    assert_eq!(dev.stop(), 0);
}

#[test]
fn a_server_with_a_worker_of_its_own_needs_no_code() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let server = Running::start(at, "serve --data data --listen 127.0.0.1:0 --admin-token-file admin.token");
    let line = server.line_with("listening on ");
    let address = line.split("listening on ").nth(1).unwrap().to_owned();
    let token = std::fs::read_to_string(at.join("admin.token")).unwrap();
    let ask = format!("--server {address} --token {}", token.trim());

    let token = rota(at, &format!("token add --read {ask}")).stdout;
    let reader = format!("--server {address} --token {}", String::from_utf8(token).unwrap().trim());
    assert!(said(at, &format!("app add etl {reader}"), 1).contains("forbidden"));
    said(at, &format!("runs {reader}"), 0);
    assert!(said(at, &format!("token list {ask}"), 0).contains("read"));

    said(at, &format!("app add etl {ask}"), 0);
    std::fs::write(at.join("etl.token"), rota(at, &format!("app token etl {ask}")).stdout).unwrap();
    let mut worker = format!("worker --app etl --token-file etl.token --server {address} --name w1 --label disk=ssd");
    worker.push_str(" --capacity 2 --allow-shell --journal journal");
    let worker = Running::start(at, &worker);
    worker.line_with("online");
    said(at, &format!("job add count --app etl --handler shell --param seq --labels disk=ssd --shards 2 {ask}"), 0);
    let failed = said(at, &format!("run count {ask}"), 1);
    assert!(failed.contains("handler_failed"), "{failed}");
    said(at, &format!("job edit count --param pwd {ask}"), 0);
    said(at, &format!("run count {ask}"), 0);
    let journal = std::fs::read_to_string(at.join("journal")).unwrap();
    assert_eq!(journal.lines().filter(|line| line.starts_with("start ")).count(), 4, "{journal}");

    assert_eq!(worker.stop(), 0);
    let state = || json(at, &format!("workers {ask}"))["items"][0]["state"].clone();
    wait_for(state, |state| state == "offline");
    assert_eq!(server.stop(), 0);

    let server = Running::start(at, "serve --data data --listen 127.0.0.1:0");
    server.line_with("listening on ");
    assert_eq!(server.stop(), 0);
}
