use std::time::Duration;

use rota_worker::{Context, Worker};

async fn greet(context: Context) -> Result<String, String> {
    context.log(format!("slot {} in {}", context.slot(), context.zone()));
    tokio::select! {
        () = context.cancelled() => Err("interrupted".to_owned()),
        () = tokio::time::sleep(Duration::from_millis(100)) => Ok(format!("hello {}", context.param())),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let token = std::fs::read_to_string("token")?;
    let worker =
        Worker::builder("http://127.0.0.1:7654", "demo", token).name("hello-1").handler("greet", greet).build()?;
    worker.run_until(async { tokio::signal::ctrl_c().await.expect("signals can be listened to") }).await?;
    Ok(())
}
