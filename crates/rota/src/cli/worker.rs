//! `rota workers`.

use rota_wire::rest::{Page, Worker};

use super::client::{Client, Path};
use super::out::Out;
use super::shown;
use super::table::{Table, one_line};
use crate::exit::Failure;

pub(crate) async fn list(client: &Client, out: Out, app: Option<String>) -> Result<(), Failure> {
    let items: Vec<Worker> = client.all(Path::of(&["workers"]).with("app", app), usize::MAX).await?;
    let page = Page { items, next: None };
    out.show(&page, |page| table(&page.items))
}

fn table(workers: &[Worker]) -> String {
    let mut table = Table::new(&["WORKER", "APP", "STATE", "LOAD", "HEARD", "HANDLERS", "LABELS", "URL"]);
    for worker in workers {
        let load = match worker.capacity {
            0 => worker.load.to_string(),
            capacity => format!("{}/{capacity}", worker.load),
        };
        let labels: Vec<String> = worker.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        table.row([
            worker.name.clone(),
            worker.app.clone(),
            worker.state.clone(),
            load,
            worker.silent_ms.map(|ms| shown::duration(i64::try_from(ms).unwrap_or(i64::MAX))).unwrap_or_default(),
            worker.handlers.join(","),
            labels.join(","),
            worker.url.clone(),
        ]);
    }
    if table.is_empty() {
        return "no workers\ntry  rota app token APP > token; rota worker --app APP --token-file token\n".to_owned();
    }
    let said = workers.iter().filter_map(|worker| Some((&worker.name, worker.message.as_ref()?)));
    let notes: String = said.map(|(name, message)| format!("{name}: {}\n", one_line(message))).collect();
    table.text() + &notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_cannot_be_reached_says_why() {
        let worker = serde_json::from_value(serde_json::json!({
            "id": 1, "app": "etl", "name": "etl-1", "incarnation": 5, "url": "http://172.17.0.3:9999",
            "state": "unreachable", "message": "http://172.17.0.3:9999 refused; set ROTA_ADVERTISE_URL",
            "handlers": ["echo", "sleep"], "labels": {"disk": "ssd"}, "capacity": 4, "load": 1, "sending": 0,
            "silent_ms": 1200
        }))
        .unwrap();
        let expected = "\
WORKER  APP  STATE        LOAD  HEARD  HANDLERS    LABELS    URL
etl-1   etl  unreachable  1/4   1.2s   echo,sleep  disk=ssd  http://172.17.0.3:9999
etl-1: http://172.17.0.3:9999 refused; set ROTA_ADVERTISE_URL
";
        assert_eq!(table(&[worker]), expected);
        assert!(table(&[]).starts_with("no workers"));
    }
}
