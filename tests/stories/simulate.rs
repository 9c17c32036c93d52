//! `rota simulate`: a history goes in, figures come out, without a server.

use std::fmt::Write;

use serde_json::Value;

use crate::folder::Folder;
use crate::process::{rota, text_of};

/// Sixteen tasks of a core, for an hour, and one that ends what is measured.
fn history() -> String {
    let mut text = "job,start,duration,cores\n".to_owned();
    for job in 0..16 {
        writeln!(text, "job-{job},1000,3600,1").unwrap();
    }
    text + "last,4600,1,0.1\n"
}

#[test]
fn a_history_is_told_what_it_needs() {
    let folder = Folder::new();
    std::fs::write(folder.path().join("history.csv"), history()).unwrap();
    let simulate = |words: &[&str], code: i32| {
        let output = rota(folder.path()).args(["simulate", "--csv", "history.csv"]).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{words:?}\n{}", text_of(&output));
        text_of(&output)
    };
    let words = ["--strategy", "FIRST", "--strategy", "ADAPTIVE_WEIGHT", "--price", "0.17"];
    let found: Value = serde_json::from_str(&simulate(&[&words[..], &["--json"]].concat(), 0)).unwrap();
    let (first, adaptive) = (&found[0]["rows"][0], &found[0]["rows"][1]);
    // Of four cores 70 % may be used: two tasks to a machine; for none to be slower, four.
    for (figure, nodes) in [("pooled", 8.0), ("worst", 8.0), ("hottest", 8.0), ("slowdown", 4.0)] {
        assert_eq!(adaptive[figure]["nodes"], nodes, "{figure}");
        assert_eq!(first[figure]["is_more"], true, "{figure}");
    }
    assert_eq!(found[0]["bounds"]["pack"], 6.0);
    let text = simulate(&[&words[..], &["--html", "report.html"]].concat(), 0);
    let page = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(page.contains("ADAPTIVE_WEIGHT on 8 machines") && !page.contains("http"), "{page}");
    assert!(text.contains("verdict: Switch from FIRST to ADAPTIVE_WEIGHT: 8 instead of 46 machines"), "{text}");
    assert!(text.contains("\nADAPTIVE_WEIGHT  8       8      8        4         993      -83 %\n"), "{text}");
    let machines = simulate(&["--quick", "--strategy", "ADAPTIVE_WEIGHT", "--node", "4c:1", "--node", "8c:3"], 0);
    assert!(machines.ends_with("cheapest: 4c with ADAPTIVE_WEIGHT, 5,840 a month\n"), "{machines}");

    assert!(simulate(&["--strategy", "BEST"], 2).contains("there is no strategy \"BEST\""));
    assert!(simulate(&["--node", "0c"], 2).contains("write 4c, 4c:0.17 or 2c+8c"));
    std::fs::write(folder.path().join("history.csv"), "job,start,duration,cores\na,1,soon,1\n").unwrap();
    assert!(simulate(&[], 2).contains("line 2, column 5: duration \"soon\" is not a number of seconds"));
}
