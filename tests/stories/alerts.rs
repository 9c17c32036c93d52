//! Alerts over real channels: HTTP servers and a mail server that write down what they got.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rota_core::template::base64;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::clock::{pass, wait_for};
use crate::folder::Folder;
use crate::process::{run, said, text_of};
use crate::server::Server;

/// What a channel got: the first line, the headers and the body of each request.
type Got = Arc<Mutex<Vec<(String, String, String)>>>;

/// A channel over HTTP that answers with a status that can be changed.
struct Channel {
    address: SocketAddr,
    status: Arc<AtomicU16>,
    got: Got,
}

impl Channel {
    fn start(status: u16) -> Channel {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (got, status) = (Got::default(), Arc::new(AtomicU16::new(status)));
        let (shared, answer) = (Arc::clone(&got), Arc::clone(&status));
        // It ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (got, status) = (Arc::clone(&shared), Arc::clone(&answer));
                std::thread::spawn(move || drop(converse(stream, &got, status.load(Ordering::SeqCst))));
            }
        });
        Channel { address, status, got }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn got(&self) -> Vec<(String, String, String)> {
        self.got.lock().expect("nobody panics with it").clone()
    }

    /// The bodies, in order.
    fn bodies(&self) -> Vec<Value> {
        self.got().iter().map(|(_, _, body)| serde_json::from_str(body).expect("JSON")).collect()
    }

    /// What was told in short, in order.
    fn told(&self) -> Vec<String> {
        let word = |body: &Value, key: &str| body[key].as_str().unwrap_or("-").to_owned();
        self.bodies()
            .iter()
            .map(|body| format!("{} {} {}", word(body, "kind"), word(body, "event"), word(body, "job")))
            .collect()
    }

    /// Waits until it got so many; what it was told.
    fn wait(&self, count: usize) -> Vec<String> {
        wait_for("messages", || self.told(), |told| told.len() >= count)
    }
}

fn converse(stream: TcpStream, got: &Got, status: u16) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut line, mut headers, mut length) = (String::new(), String::new(), 0_u64);
    reader.read_line(&mut line)?;
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header)? == 0 || header.trim_end().is_empty() {
            break;
        }
        if let Some((name, value)) = header.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
        headers.push_str(&header);
    }
    let mut body = String::new();
    reader.take(length).read_to_string(&mut body)?;
    let answer = r#"{"errcode":0,"code":0,"errmsg":"ok"}"#;
    // Noted before it is answered: whoever was answered may be asked at once what the channel got.
    if status == 200 {
        got.lock().expect("nobody panics with it").push((line.trim_end().to_owned(), headers, body));
    }
    let mut writer = stream;
    write!(writer, "HTTP/1.1 {status} x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{answer}", answer.len())
}

/// A server whose alerts may go to this host.
fn server(folder: &Path) -> Server {
    Server::start(folder, &[("ROTA_OUTBOUND__ALLOW", "127.0.0.1")])
}

fn set_alert(server: &Server, name: &str, spec: &Value) -> Value {
    server.api.ask("PUT", &format!("/api/v1/alerts/{name}"), spec)
}

fn secret(server: &Server, name: &str, value: &str) {
    server.api.ask("PUT", &format!("/api/v1/secrets/{name}"), &json!({"value": value}));
}

/// Runs a job to its end; how it ended.
fn ended(server: &Server, job: &str) -> String {
    let run = server.api.trigger(job);
    server.ended(&run)["state"].as_str().expect("a state").to_owned()
}

fn cli(server: &Server, folder: &Path, line: &str, code: i32) -> String {
    said(folder, &format!("{line} --server http://{} --token {}", server.api.address, server.api.token), code)
}

/// HMAC with SHA-256, as RFC 2104 has it, for keys of at most one block.
fn hmac(key: &str, message: &str) -> String {
    let mut block = [0_u8; 64];
    block[..key.len()].copy_from_slice(key.as_bytes());
    let pad = |with: u8| block.map(|byte| byte ^ with);
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(message).finalize();
    base64(Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize())
}

#[test]
fn a_failure_is_told_once_and_so_is_its_end() {
    let folder = Folder::new();
    let server = server(folder.path());
    let (channel, partner) = (Channel::start(200), Channel::start(500));
    secret(&server, "HOOK", "a bearer of the hook");
    let spec = json!({"webhook": channel.url("/hook"), "bearer": "{{secret.HOOK}}", "when": ["failed", "lost"]});
    let set = set_alert(&server, "oncall", &spec);
    assert_eq!((&set["spec"], &set["used_by"]), (&spec, &json!([])));
    server.job(&json!({"name": "ping", "http": {"post": partner.url("/")}, "alerts": ["oncall"]}));
    server.job(&json!({"name": "other", "http": {"post": partner.url("/")}}));

    assert_eq!((ended(&server, "other"), ended(&server, "ping")), ("failed".to_owned(), "failed".to_owned()));
    assert_eq!(channel.wait(1), ["opened failed ping"]);
    let first = channel.bodies().remove(0);
    assert_eq!((&first["why"], &first["state"], &first["count"]), (&json!("http_status"), &json!("failed"), &json!(1)));
    assert!(first["message"].as_str().expect("what it said").starts_with("status 500"), "{first}");
    assert_eq!(first["title"], "[Rota] ping failed");
    assert!(channel.got()[0].1.contains("Bearer a bearer of the hook"));
    assert_eq!(ended(&server, "ping"), "failed");
    let open = cli(&server, folder.path(), "alert open", 0);
    assert!(open.contains("oncall") && open.contains("ping") && open.contains("open"), "{open}");
    cli(&server, folder.path(), "alert ack oncall ping failed", 0);
    server.api.refused(
        "POST",
        "/api/v1/alarms/acknowledge",
        br#"{"alert":"oncall","job":"ping","event":"lost"}"#,
        404,
        "alarm_unknown",
    );

    let metrics = || server.api.call("GET", "/metrics", b"").unwrap().text;
    wait_for("an open alarm", metrics, |text| text.lines().any(|line| line == "rota_alarms_open 1"));
    partner.status.store(200, Ordering::SeqCst);
    assert_eq!(ended(&server, "ping"), "success");
    // The second failure came within four hours of the first message.
    assert_eq!(channel.wait(2), ["opened failed ping", "resolved failed ping"]);
    assert_eq!(channel.bodies()[1]["count"], 1);
    let sent = r#"rota_alert_messages_total{channel="webhook",result="sent"} 2"#;
    let expected = [sent, "rota_alarms_open 0", "rota_alert_suppressed_total 0", "rota_alert_messages_waiting 0"];
    wait_for("metrics", metrics, |text| expected.iter().all(|line| text.lines().any(|other| other == *line)));
    let listed = server.api.get("/api/v1/alerts/oncall");
    assert_eq!((&listed["used_by"], &listed["open"], &listed["waiting"]), (&json!(["ping"]), &json!(0), &json!(0)));
}

#[test]
fn a_message_outlives_the_server_until_its_channel_takes_it() {
    let folder = Folder::new();
    let mut server = server(folder.path());
    let (channel, partner) = (Channel::start(503), Channel::start(500));
    set_alert(&server, "oncall", &json!({"webhook": channel.url("/"), "when": ["failed"]}));
    server.job(&json!({"name": "ping", "http": {"post": partner.url("/")}, "alerts": ["oncall"]}));
    assert_eq!(ended(&server, "ping"), "failed");
    let waits =
        wait_for("a refusal", || server.api.get("/api/v1/alerts/oncall"), |alert| alert["last_error"].is_string());
    assert_eq!((&waits["waiting"], &waits["open"]), (&json!(1), &json!(1)));
    assert!(waits["last_error"].as_str().unwrap().contains("status 503"), "{waits}");
    let metrics = server.api.call("GET", "/metrics", b"").unwrap().text;
    assert!(metrics.contains(r#"rota_alert_messages_total{channel="webhook",result="failed"} "#), "{metrics}");
    server.kill();
    channel.status.store(200, Ordering::SeqCst);
    server.begin();
    server.ready();
    assert_eq!(channel.wait(1), ["opened failed ping"]);
    let settled = || server.api.get("/api/v1/alerts/oncall");
    wait_for("nothing waits", settled, |alert| alert["waiting"] == 0);
    server.restart();
    partner.status.store(200, Ordering::SeqCst);
    assert_eq!(ended(&server, "ping"), "success");
    assert_eq!(channel.wait(2), ["opened failed ping", "resolved failed ping"]);
}

#[test]
fn an_end_is_judged_once_whenever_the_server_dies() {
    let folder = Folder::new();
    let mut server = server(folder.path());
    let (channel, partner) = (Channel::start(200), Channel::start(500));
    set_alert(&server, "oncall", &json!({"webhook": channel.url("/"), "when": ["failed"], "per_minute": 600}));
    let jobs: Vec<String> = (0..20).map(|no| format!("ping-{no}")).collect();
    for job in &jobs {
        server.job(&json!({"name": job, "http": {"post": partner.url("/")}, "alerts": ["oncall"]}));
    }
    for part in jobs.chunks(5) {
        let runs: Vec<String> = part.iter().map(|job| server.api.trigger(job)).collect();
        server.restart();
        for run in &runs {
            // Cut off before it was sent, or in the middle: at most once for a POST.
            server.ended(run);
        }
    }
    let failed: Vec<String> = jobs
        .iter()
        .filter(|job| server.api.get(&format!("/api/v1/runs?job={job}"))["items"][0]["state"] == "failed")
        .map(|job| format!("opened failed {job}"))
        .collect();
    assert!(!failed.is_empty(), "each run was lost");
    let mut told = channel.wait(failed.len());
    told.sort();
    told.dedup();
    let mut expected = failed;
    expected.sort();
    assert_eq!(told, expected);
}

#[test]
fn robots_get_what_they_read_signed() {
    let folder = Folder::new();
    let server = server(folder.path());
    let channel = Channel::start(200);
    secret(&server, "SIGN", "SEC0123456789abcdef");
    let robots = ["dingtalk", "feishu", "wecom", "slack"];
    for robot in robots {
        secret(&server, &format!("{robot}_URL"), &channel.url(&format!("/{robot}?access_token=a-secret-token")));
        let mut spec = json!({"when": ["failed"], "language": "zh"});
        spec[robot] = json!(format!("{{{{secret.{robot}_URL}}}}"));
        if ["dingtalk", "feishu"].contains(&robot) {
            spec["sign"] = json!("{{secret.SIGN}}");
        }
        set_alert(&server, robot, &spec);
        let text = cli(&server, folder.path(), &format!("alert test {robot}"), 0);
        assert!(text.contains("has taken a test message"), "{text}");
    }
    let got = channel.got();
    let of = |robot: &str| got.iter().find(|(line, ..)| line.contains(&format!("/{robot}?"))).expect("it got one");
    let body = |robot: &str| serde_json::from_str::<Value>(&of(robot).2).expect("JSON");
    let line = &of("dingtalk").0;
    let part = |name: &str| {
        line.split(['?', '&', ' '])
            .find_map(|part| part.strip_prefix(&format!("{name}=")))
            .expect("it is there")
            .to_owned()
    };
    let expected = hmac("SEC0123456789abcdef", &format!("{}\nSEC0123456789abcdef", part("timestamp")));
    let given = part("sign").replace("%2B", "+").replace("%2F", "/").replace("%3D", "=");
    assert_eq!(given, expected);
    assert!(body("dingtalk")["text"]["content"].as_str().unwrap().contains("告警 dingtalk 测试"));
    let feishu = body("feishu");
    let key = format!("{}\nSEC0123456789abcdef", feishu["timestamp"].as_str().unwrap());
    assert_eq!(feishu["sign"], json!(hmac(&key, "")));
    assert_eq!(feishu["msg_type"], "text");
    assert_eq!(body("wecom")["msgtype"], "text");
    assert!(body("slack")["text"].as_str().unwrap().contains("告警 slack 测试"));
    // A refusal is told without the address's token.
    channel.status.store(302, Ordering::SeqCst);
    let text = cli(&server, folder.path(), "alert test slack", 1);
    assert!(text.contains("not_delivered") && text.contains("redirects are not followed"), "{text}");
    assert!(!text.contains("a-secret-token"), "{text}");
    assert!(!server.process().printed().contains("a-secret-token"));
}

/// A mail server in plain text that takes one conversation after the other; the mails that it got.
fn mail_server() -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let mails = Arc::new(Mutex::new(Vec::new()));
    let got = Arc::clone(&mails);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            drop(take_mail(stream, &got));
        }
    });
    (address, mails)
}

fn take_mail(stream: TcpStream, got: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    let mut mail = String::new();
    writer.write_all(b"220 mail.example ESMTP\r\n")?;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        mail.push_str(&line);
        match line.split([' ', ':']).next().unwrap_or_default().trim_end() {
            "EHLO" => writer.write_all(b"250-mail.example\r\n250-SIZE 1000000\r\n250 8BITMIME\r\n")?,
            "DATA" => {
                writer.write_all(b"354 go on\r\n")?;
                loop {
                    let mut line = String::new();
                    reader.read_line(&mut line)?;
                    if line == ".\r\n" {
                        break;
                    }
                    mail.push_str(&line);
                }
                got.lock().expect("nobody panics with it").push(std::mem::take(&mut mail));
                writer.write_all(b"250 kept\r\n")?;
            }
            "QUIT" => return writer.write_all(b"221 bye\r\n"),
            _ => writer.write_all(b"250 well\r\n")?,
        }
    }
}

#[test]
fn a_failure_is_mailed() {
    let folder = Folder::new();
    let server = server(folder.path());
    let partner = Channel::start(500);
    let (address, mails) = mail_server();
    let mail = json!({"server": address.to_string(), "encryption": "none", "from": "rota@shop.example",
        "to": ["ops@shop.example", "ann@shop.example"]});
    set_alert(&server, "mail", &json!({"email": mail, "when": ["failed"], "text": "{{job}}: {{why}}"}));
    server.job(&json!({"name": "ping", "http": {"post": partner.url("/")}, "alerts": ["mail"]}));
    assert_eq!(ended(&server, "ping"), "failed");
    let got = || mails.lock().expect("nobody panics with it").clone();
    let mail = wait_for("a mail", got, |mails| !mails.is_empty()).remove(0);
    assert!(
        mail.contains("MAIL FROM:<rota@shop.example>\r\nRCPT TO:<ops@shop.example>\r\nRCPT TO:<ann@shop.example>\r\n"),
        "{mail}"
    );
    assert!(mail.contains(&format!("Subject: =?utf-8?B?{}?=\r\n", base64("[Rota] ping failed"))), "{mail}");
    assert!(mail.ends_with(&format!("\r\n\r\n{}\r\n", base64("ping: http_status"))), "{mail}");
}

#[test]
fn what_is_late_is_told_before_it_starts_and_resolved_when_it_is_on_time() {
    let folder = Folder::new();
    let server = server(folder.path());
    let channel = Channel::start(200);
    set_alert(&server, "late", &json!({"webhook": channel.url("/"), "late": "2s", "no_success": "3s"}));
    let token = server.app("etl");
    server.job(&json!({"name": "tick", "app": "etl", "handler": "echo", "every": "1s", "alerts": ["late"]}));
    let told = channel.wait(2);
    let mut sorted = told.clone();
    sorted.sort();
    assert_eq!(sorted, ["opened late tick", "opened no_success tick"]);
    let late = channel.bodies().into_iter().find(|body| body["event"] == "late").unwrap();
    assert_eq!((&late["why"], &late["run"]), (&json!("no_worker"), &Value::Null));
    let _worker = server.worker("etl", &token, "w1", "");
    let mut told = channel.wait(4);
    told.sort();
    let expected = ["opened late tick", "opened no_success tick", "resolved late tick", "resolved no_success tick"];
    assert_eq!(told, expected);
    // Nothing more comes while all is well.
    pass(Duration::from_secs(3));
    assert_eq!(channel.told().len(), 4);
}

/// Field case B142: no path and no inner address is a channel.
#[test]
fn addresses_that_must_not_be_called_and_rules_that_mean_nothing_are_refused() {
    let folder = Folder::new();
    let server = Server::start(folder.path(), &[]);
    let refused = |spec: Value, field: &str| {
        let refusal = server.api.refused("PUT", "/api/v1/alerts/a", spec.to_string().as_bytes(), 400, "invalid");
        assert_eq!(refusal["field"], field, "{refusal}");
        refusal["message"].as_str().unwrap().to_owned()
    };
    for url in [
        "file:///bin/sh",
        "../../x.sh",
        "http://localhost:8500/v1/kv",
        "http://127.0.0.1/",
        "http://169.254.169.254/latest/meta-data",
        "http://[fe80::1]/",
        "http://100.100.100.200/",
        "http://user:password@shop.example/",
    ] {
        refused(json!({"webhook": url, "when": ["failed"]}), "webhook");
    }
    secret(&server, "INSIDE", "http://169.254.169.254/latest?token=hidden-value");
    let message = refused(json!({"slack": "{{secret.INSIDE}}", "when": ["failed"]}), "slack");
    assert!(message.contains("metadata") && !message.contains("hidden-value"), "{message}");
    refused(json!({"slack": "https://hooks.slack.example/T/B/x", "when": ["failed"]}), "slack");
    refused(json!({"webhook": "https://shop.example/", "when": ["faild"]}), "when");
    refused(json!({"webhook": "https://shop.example/"}), "when");
    let mail = json!({"server": "127.0.0.1:25", "from": "a@b.example", "to": ["c@d.example"]});
    refused(json!({"email": mail, "when": ["failed"]}), "email.server");
    assert_eq!(server.api.get("/api/v1/alerts")["items"], json!([]));
    server.api.refused("POST", "/api/v1/alerts/a/test", b"", 404, "alert_unknown");
}

#[test]
fn a_job_file_sets_alerts_and_its_export_reads_back() {
    let folder = Folder::new();
    let server = server(folder.path());
    let file = folder.path().join("shop.yaml");
    let text = "version: 1\ndefaults:\n  alerts: [oncall]\nalerts:\n  oncall: {feishu: \"{{secret.FEISHU_URL}}\", when: [failed, lost], late: 5m}\n\
                apps: {etl: }\njobs:\n  nightly: {app: etl, handler: h, cron: \"0 2 * * *\"}\n  quiet: {app: etl, handler: h, alerts: []}\n";
    std::fs::write(&file, text).unwrap();
    let plan = cli(&server, folder.path(), "plan -f shop.yaml", 2);
    assert!(plan.contains("alert oncall") && plan.contains("1 alert"), "{plan}");
    cli(&server, folder.path(), "apply -f shop.yaml", 0);
    assert!(cli(&server, folder.path(), "plan -f shop.yaml", 0).contains("nothing to do"));
    let alert = server.api.get("/api/v1/alerts/oncall");
    assert_eq!(alert["used_by"], json!(["nightly"]));
    assert_eq!(alert["warnings"], json!(["secret FEISHU_URL is not set: rota secret set FEISHU_URL"]));
    let show = cli(&server, folder.path(), "alert show oncall", 0);
    assert!(show.contains("failed, lost, late 5m"), "{show}");
    server.api.refused("DELETE", "/api/v1/alerts/oncall", b"", 409, "alert_in_use");
    cli(&server, folder.path(), "export -f out.yaml --managed-by shop", 0);
    let exported = std::fs::read_to_string(folder.path().join("out.yaml")).unwrap();
    assert!(exported.contains("alerts:\n  oncall: {"), "{exported}");
    assert!(cli(&server, folder.path(), "plan -f out.yaml", 0).contains("nothing to do"));
    std::fs::write(&file, text.replace("late: 5m", "lat: 5m")).unwrap();
    let line = format!("plan -f shop.yaml --server http://{} --token {}", server.api.address, server.api.token);
    let output = run(folder.path(), &line);
    assert_eq!(output.status.code(), Some(2));
    assert!(text_of(&output).contains("late"), "{}", text_of(&output));
}
