//! What a playground has to show: an app, a worker, and three jobs.

use rota_wire::rest::{App, AppPut, Http, Job, JobSaved, JobSpec, Retry, TokenAsk, TokenMade};
use rota_worker::Status;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::cli::client::{Client, Path};
use crate::exit::Failure;
use crate::worker::chain;

const APP: &str = "demo";
const WORKER: &str = "demo-1";
const URL_JOB: &str = "livez";

/// Makes app and jobs, unless they exist; returns a token for the worker.
pub(super) async fn set_up(client: &Client, server: &str) -> Result<String, Failure> {
    let _: App = client.put(Path::of(&["apps", APP]), &AppPut::default()).await?;
    let made: TokenMade = client.post(Path::of(&["apps", APP, "token"]), &TokenAsk::default()).await?;
    for spec in jobs(server) {
        let saved: Result<JobSaved, Failure> = client.post(Path::of(&["jobs"]), &spec).await;
        match saved {
            Ok(_) => {}
            Err(Failure::Failed(error)) if error.code == "name_taken" => {
                if spec.name == URL_JOB {
                    follow_address(client, &spec).await?;
                }
            }
            Err(failure) => return Err(failure),
        }
    }
    made.token.ok_or_else(|| Failure::failed("unexpected_answer", "the server made no token"))
}

/// The playground may listen elsewhere than at its last start; its own URL job then would call nobody.
async fn follow_address(client: &Client, wanted: &JobSpec) -> Result<(), Failure> {
    let found: Job = client.get(Path::of(&["jobs", &wanted.name])).await?;
    let is_ours =
        found.spec.http.as_ref().and_then(|http| http.get.as_ref()).is_some_and(|url| url.ends_with("/livez"));
    if is_ours && found.spec.http != wanted.http {
        let spec = JobSpec { http: wanted.http.clone(), ..found.spec };
        let path = Path::of(&["jobs", &wanted.name]).with("version", Some(found.version.to_string()));
        let _: JobSaved = client.put(path, &spec).await?;
    }
    Ok(())
}

fn jobs(server: &str) -> [JobSpec; 3] {
    let job = |name: &str, every: &str| JobSpec {
        name: name.to_owned(),
        namespace: rota_wire::worker::default_namespace(),
        every: Some(every.to_owned()),
        ..JobSpec::default()
    };
    [
        JobSpec {
            app: Some(APP.to_owned()),
            handler: Some("echo".to_owned()),
            param: Some("hello".to_owned()),
            ..job("hello", "5s")
        },
        JobSpec {
            app: Some(APP.to_owned()),
            handler: Some("fail".to_owned()),
            // Each run fails once.
            param: Some(r#"{"until_attempt": 2}"#.to_owned()),
            retry: Some(Retry { max: 2, first: Some("2s".to_owned()), ..Retry::default() }),
            ..job("flaky", "10s")
        },
        JobSpec { http: Some(Http { get: Some(format!("{server}/livez")), ..Http::default() }), ..job(URL_JOB, "15s") },
    ]
}

/// The demo worker, in this process.
pub(super) struct Worker {
    name: String,
    handlers: Vec<String>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), rota_worker::Error>>,
}

impl Worker {
    /// Starts it, and waits until it is online.
    pub(super) async fn start(server: &str, token: String) -> Result<Worker, Failure> {
        let failed = |error: rota_worker::Error| Failure::failed("worker_failed", chain(&error));
        let worker =
            rota_worker::Worker::builder(server, APP, token).name(WORKER).builtins().build().map_err(failed)?;
        let (name, handlers) = (worker.name().to_owned(), worker.handlers().to_vec());
        let mut status = worker.status();
        let (stop, stopped) = oneshot::channel();
        // Its sender may be dropped instead of used; both mean stop.
        let mut task = tokio::spawn(worker.run_until(async move { drop(stopped.await) }));
        tokio::select! {
            // The end first: a worker that has ended never comes online.
            biased;
            ended = &mut task => match ended.expect("the worker does not panic") {
                Err(error) => Err(failed(error)),
                Ok(()) => Err(Failure::failed("worker_failed", "the demo worker left at once")),
            },
            online = status.wait_for(|status| matches!(status, Status::Online { .. })) => {
                drop(online);
                Ok(Worker { name, handlers, stop, task })
            }
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn handlers(&self) -> &[String] {
        &self.handlers
    }

    /// Ends it with the process; its server is gone already, so there is nobody to take leave of.
    pub(super) async fn stop(self) {
        drop(self.stop);
        self.task.abort();
        drop(self.task.await);
    }
}
