//! `rota dev` and every command beside it, as somebody types them who has just cloned this.

use std::time::Duration;

use serde_json::{Value, json as value};

use crate::clock::{now, wait_for};
use crate::folder::Folder;
use crate::process::{Process, json, rota, run, said, text_of};

/// From the command to the first screen, in a build without optimization on a machine that does other things.
const READY: Duration = Duration::from_secs(30);

fn dev(folder: &std::path::Path) -> Process {
    let mut command = rota(folder);
    command.args(["dev", "--listen", "127.0.0.1:0"]);
    Process::start(command, &folder.join("dev.log"))
}

#[test]
fn everything_that_the_first_screen_promises() {
    let folder = Folder::new();
    let at = folder.path();
    assert!(said(at, "runs --server http://127.0.0.1:9 --token abc", 3).contains("rota dev"));

    let began = now();
    let mut server = dev(at);
    server.line_with(" ready in ");
    assert!(began.elapsed() < READY, "{:?}", began.elapsed());
    let page = server.line_with("page ");
    assert!(page.contains("http://127.0.0.1:"), "{page}");
    let hello = server.line_with("  hello ");
    assert!(hello.contains("success") && hello.contains(" late"), "{hello}");

    jobs(at);
    runs(at);
    kill(at);
    let workers = json(at, "workers");
    assert_eq!(workers["items"][0]["name"], "demo-1", "{workers}");
    assert!(said(at, "workers", 0).contains("online"));

    // What was there is there after a power cut.
    let runs = |at| json(at, "runs --job mine")["items"].as_array().unwrap().len();
    let before = runs(at);
    assert!(before > 0);
    server.kill();
    assert_eq!(run(at, "runs").status.code(), Some(3));
    let mut server = dev(at);
    server.line_with(" ready in ");
    assert_eq!(runs(at), before);
    said(at, "job rm mine", 0);
    assert!(said(at, "job show mine", 1).contains("job_unknown"));
    assert_eq!(server.stop(), 0);
}

fn jobs(at: &std::path::Path) {
    let added =
        said(at, "job add mine --app demo --handler echo --param one --every 1h --retries 1 --retry-first 1s", 0);
    assert!(added.contains("next  ") && added.contains("rota run mine"), "{added}");
    let list = json(at, "job list");
    let names: Vec<&Value> =
        list.as_array().or(list["items"].as_array()).unwrap().iter().map(|job| &job["spec"]["name"]).collect();
    for name in ["hello", "flaky", "livez", "mine"] {
        assert!(names.contains(&&value!(name)), "{list}");
    }
    assert!(said(at, "job list --app demo", 0).contains("mine"));
    assert!(said(at, "job pause mine", 0).contains("paused"));
    assert_eq!(json(at, "job show mine")["state"], "paused");
    assert!(said(at, "job resume mine", 0).contains("enabled"));
    let edited = json(at, "job edit mine --param two --overlap skip");
    assert_eq!(edited["version"], 2, "{edited}");
    let shown = json(at, "job show mine");
    assert_eq!((&shown["spec"]["param"], &shown["spec"]["every"]), (&value!("two"), &value!("1h")), "{shown}");
    let described = said(at, "job show mine", 0);
    assert!(described.contains("schedule") && described.contains("param     two"), "{described}");
}

fn runs(at: &std::path::Path) {
    let output = run(at, "run mine");
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stdout).as_ref()), (Some(0), "two\n"));
    assert!(text_of(&output).contains("success"));
    let output = run(at, "run mine --param three");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "three\n");
    said(at, "job add broken --app demo --handler fail --param oh-no", 0);
    let failed = said(at, "run broken", 1);
    assert!(failed.contains("handler_failed") && failed.contains("oh-no"), "{failed}");

    let first = json(at, "run mine --no-follow --request-id once");
    let again = json(at, "run mine --no-follow --request-id once");
    assert_eq!((&first["run"], &again["is_repeated"]), (&again["run"], &value!(true)));
    let id = first["run"].as_str().unwrap();
    let ended = |id: &str| json(at, &format!("why {id}"))["run"]["is_ended"] == true;
    wait_for("its end", || ended(id), |is_ended| *is_ended);
    let logs = wait_for("its log", || json(at, &format!("logs {id}")), |logs| logs[0]["is_closed"] == true);
    assert_eq!(logs[0]["text"], "two\n");
    assert_eq!(String::from_utf8_lossy(&run(at, &format!("logs {id}")).stdout), "two\n");
    let story = said(at, &format!("why {id}"), 0);
    assert!(story.contains("SUCCESS") && story.contains("demo-1"), "{story}");
    // The last characters of an id are enough.
    assert!(said(at, &format!("why {}", &id[id.len() - 6..]), 0).contains(id));

    let table = said(at, "runs --job mine", 0);
    assert!(table.starts_with("RUN") && table.contains(id) && table.contains("3 success"), "{table}");
    let failed = json(at, "runs --state failed --job broken");
    assert_eq!(failed["items"].as_array().unwrap().len(), 1, "{failed}");
}

fn kill(at: &std::path::Path) {
    said(at, "job add long --app demo --handler sleep --param 1h", 0);
    let made = json(at, "run long --no-follow");
    let id = made["run"].as_str().unwrap();
    wait_for("its start", || json(at, "runs --job long")["items"][0]["state"].clone(), |state| state == "running");
    assert!(said(at, &format!("kill {id}"), 0).contains("is being stopped"));
    wait_for("its end", || json(at, "runs --job long")["items"][0]["state"].clone(), |state| state == "killed");
    assert!(said(at, &format!("kill {id}"), 1).contains("run_ended"));
    let story = wait_for("its worker's word", || said(at, &format!("why {id}"), 0), |story| story.contains("KILLED"));
    assert!(story.contains("killed_by_user") || story.contains("someone killed it"), "{story}");
}
