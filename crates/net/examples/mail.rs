//! Hands one mail to a server, as alerts do, and says what came of it; `tests/smtp/check.py` calls it.
//!
//! Usage: mail HOST:PORT none|starttls|tls CA.der [USER PASSWORD]

use std::process::ExitCode;
use std::sync::Arc;

use rota_core::time::UnixMs;
use rota_net::mail::{Encryption, Mail, Server};
use rota_net::message::Messenger;
use rota_net::policy::Policy;
use rota_net::tls;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (Some(address), Some(encryption), Some(root)) = (args.first(), args.get(1), args.get(2)) else {
        eprintln!("usage: mail HOST:PORT none|starttls|tls CA.der [USER PASSWORD]");
        return ExitCode::from(2);
    };
    let encryption = match encryption.as_str() {
        "tls" => Encryption::Tls,
        "starttls" => Encryption::Starttls,
        _ => Encryption::None,
    };
    let root = std::fs::read(root).expect("a certificate");
    let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
    let policy = Policy::new(&[host.to_owned()], false).expect("a host");
    let messenger = Messenger::new(Arc::new(policy), tls::roots(&[root.into()]).expect("an authority"));
    let login = args.get(3).cloned().zip(args.get(4).cloned());
    let server = Server { address: address.clone(), encryption, login };
    let mail = Mail {
        from: "rota@shop.example".to_owned(),
        to: vec!["ops@shop.example".to_owned(), "ann@shop.example".to_owned()],
        subject: "[Rota] 任务 settle 执行失败".to_owned(),
        body: "一行\n.\n..two dots\nthe end".to_owned(),
        at: UnixMs(1_796_061_600_000),
        id: "rota.1.7".to_owned(),
    };
    match messenger.mail(&server, &mail).await {
        Ok(()) => {
            println!("delivered");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}
