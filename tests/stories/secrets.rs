//! A secret: those it is meant for get it, and nobody and nothing else, through rotation, power cut and removal.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::json;

use crate::folder::Folder;
use crate::process::{json as cli_json, rota, said, text_of};
use crate::server::Server;

const FIRST: &str = "s3cret/of the first day";
const SECOND: &str = "s3cret+of+the+second+day";

/// A partner's service that wants a token, and is so careless as to repeat it in its answer.
struct Partner {
    address: SocketAddr,
    tokens: Arc<Mutex<Vec<String>>>,
}

impl Partner {
    fn start() -> Partner {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let tokens = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&tokens);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                drop(answer(stream, &shared));
            }
        });
        Partner { address, tokens }
    }

    /// The tokens that came since the last look.
    fn tokens(&self) -> Vec<String> {
        std::mem::take(&mut *self.tokens.lock().unwrap())
    }
}

fn answer(stream: TcpStream, tokens: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut token, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            if line.trim_end().is_empty() {
                break;
            }
            continue;
        };
        match name.to_ascii_lowercase().as_str() {
            "authorization" => token = value.to_owned(),
            "content-length" => length = value.parse().unwrap_or(0),
            _ => {}
        }
    }
    std::io::copy(&mut (&mut reader).take(length), &mut std::io::sink())?;
    let body = format!("you are {token}");
    tokens.lock().unwrap().push(token);
    let mut writer = stream;
    write!(writer, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

/// The story's place, and everything that was said in it so far.
struct Scene {
    folder: Folder,
    server: Server,
    heard: String,
}

impl Scene {
    /// Runs `rota`, feeds it, and remembers what it said.
    fn cli(&mut self, words: &[&str], input: &str, code: i32) -> String {
        let mut command = rota(self.folder.path());
        command.env("ROTA_SERVER", format!("http://{}", self.server.api.address));
        command.env("ROTA_TOKEN", &self.server.api.token).args(words);
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
        // It may refuse the command without reading.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        let text = text_of(&output);
        assert_eq!(output.status.code(), Some(code), "rota {words:?}\n{text}");
        self.heard.push_str(&text);
        text
    }

    /// A run of a job, to its end; its row, and all that the server says about it goes on record.
    fn run(&mut self, job: &str) -> serde_json::Value {
        let run = self.server.api.trigger(job);
        let ended = self.server.ended(&run);
        for what in ["", "/why", "/logs"] {
            self.heard.push_str(&self.server.api.get(&format!("/api/v1/runs/{run}{what}")).to_string());
        }
        self.cli(&["why", &run], "", 0);
        self.cli(&["logs", &run], "", 0);
        ended
    }

    /// Neither what was said nor any file has a value in any form.
    fn nothing_is_seen(&self) {
        let forms = |value: &str| [value.to_owned(), value.replace('/', "%2F").replace(' ', "%20").replace('+', "%2B")];
        let forms: Vec<String> = [FIRST, SECOND].into_iter().flat_map(forms).collect();
        let is_seen = |bytes: &[u8]| {
            forms.iter().find(|form| bytes.windows(form.len()).any(|window| window == form.as_bytes())).cloned()
        };
        assert_eq!(is_seen(self.heard.as_bytes()), None, "{}", self.heard);
        let all = files(self.folder.path());
        assert!(all.iter().any(|file| file.ends_with("rota.db")), "{all:?}");
        for file in all {
            assert_eq!(is_seen(&std::fs::read(&file).unwrap()), None, "{}", file.display());
        }
        // The search sees what is there: the parameter's own words are in the database.
        let database = std::fs::read(self.folder.path().join("data/rota.db")).unwrap();
        let log = std::fs::read(self.folder.path().join("data/rota.db-wal")).unwrap_or_default();
        let is_there = |bytes: &[u8]| bytes.windows(16).any(|window| window == b"{{secret.PARTNER");
        assert!(is_there(&database) || is_there(&log));
    }
}

#[test]
fn a_secret_is_seen_by_those_it_is_meant_for_and_by_nobody_else() {
    let partner = Partner::start();
    let folder = Folder::new();
    let allow = partner.address.to_string();
    let settings = [("ROTA_OUTBOUND__ALLOW", allow.as_str()), ("ROTA_SERVER__LOG", "trace")];
    let server = Server::start(folder.path(), &settings);
    let token = server.app("etl");
    let _worker = server.worker("etl", &token, "w1", "--allow-shell");
    let mut scene = Scene { folder, server, heard: String::new() };

    let url = format!("http://{}/day/{{{{slot|date('%F')}}}}", partner.address);
    let add = ["job", "add", "ping", "--method", "POST", "--url", &url, "--bearer", "{{secret.PARTNER}}"];
    assert!(scene.cli(&add, "", 0).contains("note  secret PARTNER is not set: rota secret set PARTNER"));
    let command = "printf '%s\\n' 'token {{secret.PARTNER}}, part {{shard.index}}/{{shard.total}}'; echo '{{secret.PARTNER}}' >&2; exit 3";
    scene.server.job(&json!({"name": "echo", "app": "etl", "handler": "shell", "param": command}));
    let missing = scene.run("ping");
    assert_eq!((&missing["state"], &missing["why"]), (&json!("failed"), &json!("secret_unknown")));
    assert!(scene.heard.contains("secret PARTNER is not set in namespace default"), "{}", scene.heard);
    assert_eq!(partner.tokens(), Vec::<String>::new());

    for (value, restart) in [(FIRST, false), (SECOND, false), (SECOND, true)] {
        if restart {
            scene.server.restart();
        } else {
            let set = scene.cli(&["secret", "set", "PARTNER"], &format!("{value}\n"), 0);
            assert!(set.contains("PARTNER is set; used by ping, echo"), "{set}");
        }
        let pinged = scene.run("ping");
        assert_eq!((&pinged["state"], &pinged["version"]), (&json!("success"), &json!(1)), "{pinged}");
        assert_eq!(pinged["message"], "you are Bearer ***");
        assert_eq!(partner.tokens(), [format!("Bearer {value}")]);
        let echoed = scene.run("echo");
        assert_eq!(echoed["message"], "exit status 3: ***");
        assert!(scene.heard.contains("token ***, part 0/1"), "{}", scene.heard);
        scene.nothing_is_seen();
    }

    for words in [&["secret", "list"][..], &["job", "list"], &["job", "show", "ping", "--json"], &["runs", "--json"]] {
        scene.cli(words, "", 0);
    }
    for path in ["/api/v1/secrets", "/api/v1/jobs", "/api/v1/runs", "/api/v1/live", "/api/v1/workers"] {
        let answer = scene.server.api.get(path).to_string();
        scene.heard.push_str(&answer);
    }
    let metrics = scene.server.api.call("GET", "/metrics", b"").unwrap().text;
    scene.heard.push_str(&metrics);
    assert!(scene.heard.contains("{{secret.PARTNER}}"));

    // What got a value while it was in use may say it at any time, also to a server that never had it in use.
    let said = scene.folder.path().join("said");
    std::fs::write(&said, format!("{FIRST}\n{SECOND}\n")).unwrap();
    scene.server.job(&json!({"name": "late", "app": "etl", "handler": "shell", "param": "cat said >&2; exit 3"}));
    assert_eq!(scene.run("late")["message"], "exit status 3: ***");
    std::fs::remove_file(&said).unwrap();
    scene.nothing_is_seen();

    assert!(scene.cli(&["secret", "rm", "PARTNER"], "", 1).contains("secret_in_use"));
    scene.cli(&["secret", "rm", "PARTNER", "--force"], "", 0);
    assert_eq!(scene.run("ping")["why"], "secret_unknown");
    assert_eq!(partner.tokens(), Vec::<String>::new());
    scene.server.restart();
    assert_eq!(scene.run("ping")["why"], "secret_unknown");
    scene.nothing_is_seen();
}

#[test]
fn a_mistake_in_a_template_is_said_when_the_job_is_saved() {
    let folder = Folder::new();
    let server = Server::start(folder.path(), &[]);
    server.app("etl");
    let job = json!({"name": "a", "app": "etl", "handler": "echo", "param": "{{slott|date('%F')}}"});
    let refusal = server.api.refused("POST", "/api/v1/jobs", job.to_string().as_bytes(), 400, "invalid");
    assert_eq!((&refusal["field"], &refusal["hint"]), (&json!("param"), &json!("did you mean `slot`?")));
    let credentials = format!("--server http://{} --token {}", server.api.address, server.api.token);
    let refused = said(folder.path(), &format!("job add b --url http://{{{{app}}}}.example/ {credentials}"), 2);
    assert!(refused.contains("scheme, host and port of a URL are written out"), "{refused}");
    let listed = cli_json(folder.path(), &format!("secret list {credentials}"));
    assert_eq!(listed["items"], json!([]));
}
