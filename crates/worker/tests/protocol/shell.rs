//! The built-in handler `shell`, with real processes.

use crate::support::{FakeServer, Running, builder, gone, is_alive, run};
use rota_wire::worker::{AttemptResult, Execute, Outcome};

async fn started(server: &FakeServer) -> Running {
    run(server, builder(server).allow_shell(true)).await
}

fn ended(result: &AttemptResult) -> (Outcome, Option<&str>) {
    (result.outcome, result.message.as_deref())
}

/// Waits for the process ids that a command prints as `pids A B`.
async fn printed_ids(server: &FakeServer, run: u64) -> Vec<String> {
    server
        .wait("printed ids", |told| {
            let line = told.lines(run).into_iter().find(|line| line.starts_with("pids "))?;
            Some(line.split(' ').skip(1).map(str::to_owned).collect())
        })
        .await
}

#[tokio::test]
async fn it_is_offered_only_if_allowed() {
    let server = FakeServer::start().await;
    run(&server, builder(&server).builtins()).await;
    assert!(!server.told().registers[0].handlers.contains(&"shell".to_owned()));
}

#[tokio::test]
async fn output_becomes_the_log_and_the_status_the_result() {
    let server = FakeServer::start().await;
    let worker = started(&server).await;
    let cases = [
        (1, "echo out; echo err >&2", Outcome::Success, None),
        (2, "exit 3", Outcome::Failed, Some("exit status 3")),
        (3, "echo boom >&2; exit 4", Outcome::Failed, Some("exit status 4: boom")),
        (4, "kill -KILL $$", Outcome::Failed, Some("killed by signal 9")),
        (5, r#"["printf", "%s\n", "$HOME *", "two"]"#, Outcome::Success, None),
        (6, "cat; echo end of input", Outcome::Success, None),
    ];
    for (attempt, param, outcome, message) in cases {
        worker.start(attempt, "shell", param).await;
        assert_eq!(ended(&server.result(attempt).await), (outcome, message), "{param}");
    }
    worker.start(7, "shell", r#"["/no/such/program"]"#).await;
    let result = server.result(7).await;
    assert!(result.message.unwrap().starts_with("the command cannot be started: "));
    let told = server.told();
    let mut lines = told.lines(1_001);
    lines.sort();
    assert_eq!(lines, ["err", "out"]);
    assert_eq!(told.lines(1_005), ["$HOME *", "two"]);
    assert_eq!(told.lines(1_006), ["end of input"]);
}

#[tokio::test]
async fn the_environment_says_what_runs() {
    let server = FakeServer::start().await;
    let worker = started(&server).await;
    let param = r#"echo "$ROTA_RUN $ROTA_ATTEMPT $ROTA_ATTEMPT_ID $ROTA_SHARD_INDEX/$ROTA_SHARD_TOTAL $ROTA_SLOT $ROTA_ZONE $ROTA_JOB $ROTA_IDEMPOTENCY_KEY"; echo "${#ROTA_PARAM}""#;
    worker.start(1, "shell", param).await;
    server.result(1).await;
    let expected = "1001 2 1 1/3 2026-12-01T02:00:00+08:00 Asia/Shanghai nightly 1001/1";
    assert_eq!(server.told().lines(1_001), [expected.to_owned(), param.len().to_string()]);
}

#[tokio::test]
async fn a_flood_of_output_is_bounded_and_marked() {
    let server = FakeServer::start().await;
    let worker = started(&server).await;
    worker.start(1, "shell", "head -c 20000000 /dev/zero | tr '\\0' x; echo; yes | head -n 300000; echo the end").await;
    assert_eq!(server.result(1).await.outcome, Outcome::Success);
    let told = server.told();
    let lines = told.lines(1_001);
    assert!(lines[0].ends_with("x [rota] 19983616 bytes cut"));
    assert!(lines.iter().any(|line| line == "the end" || line.contains("lines are missing here")));
}

#[tokio::test]
async fn a_kill_reaches_the_whole_group() {
    let server = FakeServer::start().await;
    let worker = started(&server).await;
    worker.start(1, "shell", "sleep 1000 & echo pids $$ $!; wait").await;
    let ids = printed_ids(&server, 1_001).await;
    assert!(ids.iter().all(|id| is_alive(id)));
    assert_eq!(worker.post("cancel", &worker.enquiry(1)).await.0, 200);
    assert_eq!(ended(&server.result(1).await), (Outcome::Killed, Some("killed: killed by signal 15")));
    for id in &ids {
        gone(id).await;
    }
}

#[tokio::test]
async fn who_ignores_the_kind_stop_is_killed_after_the_grace() {
    let server = FakeServer::start().await;
    let worker = started(&server).await;
    let param = "trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & echo pids $$ $!; while :; do sleep 1; done";
    let ask = Execute { timeout_ms: Some(200), ..worker.ask(1, "shell", param) };
    assert_eq!(worker.execute(&ask).await.0, 202);
    let ids = printed_ids(&server, 1_001).await;
    assert_eq!(ended(&server.result(1).await), (Outcome::Timeout, Some("stopped at its deadline: killed by signal 9")));
    for id in &ids {
        gone(id).await;
    }
}

#[tokio::test]
async fn what_a_command_leaves_behind_in_its_group_ends_with_it() {
    let server = FakeServer::start().await;
    let worker = started(&server).await;
    worker.start(1, "shell", "sleep 1000 & echo pids $!").await;
    assert_eq!(server.result(1).await.outcome, Outcome::Success);
    for id in printed_ids(&server, 1_001).await {
        gone(&id).await;
    }
}

#[tokio::test]
async fn dropping_the_worker_kills_its_commands() {
    let server = FakeServer::start().await;
    let worker = started(&server).await;
    worker.start(1, "shell", "sleep 1000 & echo pids $$ $!; wait").await;
    let ids = printed_ids(&server, 1_001).await;
    worker.abort();
    for id in &ids {
        gone(id).await;
    }
}
