//! Reserving names, ids and requests: each a transaction of its own.

use rota_core::id::{AppId, JobId, PartitionId, RunId, WorkerId, partition_of};
use rota_core::limits;
use rota_core::rate::Rates;
use rota_core::time::UnixMs;
use rota_core::upstream;
use rota_port::secrets::RETIRED_MAX;
use rota_port::store::{Error, REQUEST_KEPT_MS, Reservation, Reserved, Scope, StoredSecret, Token};
use rusqlite::{Connection, OptionalExtension, ToSql, params};

use crate::alerts;
use crate::codec;
use crate::failure::{of, transaction};
use crate::key::Key;
use crate::sqlite::{SqliteStore, read_app};

/// Ids stay below this.
const IDS_END: u64 = 1 << 53;
/// Job ids are positive 31-bit numbers.
const JOBS_END: u32 = 1 << 31;

impl SqliteStore {
    pub(crate) fn take_ids(&mut self, floor: u64, count: u64) -> Result<u64, Error> {
        transaction(&self.conn, || {
            let first = ids_next(&self.conn).map_err(of)?.max(floor);
            let next = first.checked_add(count).filter(|next| *next < IDS_END);
            let next = next.ok_or_else(|| Error::Corrupt("no ids are left below 2^53".into()))?;
            run(&self.conn, "UPDATE meta SET value = ?1 WHERE name = 'ids_next'", &[&next.cast_signed()])?;
            Ok(first)
        })
    }

    pub(crate) fn reserve_group(&mut self, what: &[Reservation]) -> Result<Vec<Reserved>, Error> {
        let reserved = transaction(&self.conn, || {
            // Apps made within the group are known to those after them only once it is durable.
            what.iter().map(|what| self.reserve_one(what)).collect::<Result<Vec<Reserved>, Error>>()
        })?;
        for app in &reserved {
            if let Reserved::App(app) = app {
                let partition: PartitionId = partition_of(&app.namespace, &app.name, self.partitions);
                self.apps.insert(app.id, (app.clone(), partition));
            }
        }
        Ok(reserved)
    }

    fn reserve_one(&self, what: &Reservation) -> Result<Reserved, Error> {
        match what {
            Reservation::App { namespace, name, pending_max, rates } => {
                app(&self.conn, namespace, name, *pending_max, rates.as_ref())
            }
            Reservation::JobName { app, name, at } => {
                let Some((app, _)) = self.apps.get(app) else { return Ok(Reserved::Unknown) };
                job_name(&self.conn, &app.namespace, name, *at)
            }
            Reservation::JobNameBack { job } => job_name_back(&self.conn, *job),
            Reservation::WorkerName { app, name } => {
                if !self.apps.contains_key(app) {
                    return Ok(Reserved::Unknown);
                }
                worker_name(&self.conn, *app, name)
            }
            Reservation::Request { job, request_id, body_hash, at } => {
                request(&self.conn, *job, request_id, body_hash, *at)
            }
            Reservation::RequestBack { job, request_id } => request_back(&self.conn, *job, request_id),
            Reservation::Upstreams { job, upstreams, token } => self::upstreams(&self.conn, *job, upstreams, *token),
            Reservation::UpstreamsBack { job, token } => upstreams_back(&self.conn, *job, *token),
            Reservation::Token(token) => keep_token(&self.conn, token),
            Reservation::TokensBack { scope } => tokens_back(&self.conn, scope),
            Reservation::Secret(secret) => keep_secret(&self.conn, secret, &self.key),
            Reservation::Alert { namespace, name, rule, at, by } => {
                alerts::keep(&self.conn, (namespace, name), rule, *at, by)
            }
            Reservation::AlertBack { namespace, name } => alerts::remove(&self.conn, namespace, name),
            Reservation::AlertWork(work) => alerts::work(&self.conn, work),
            Reservation::SecretBack { namespace, name, at } => secret_back(&self.conn, (namespace, name), *at),
        }
    }
}

/// The next id that nobody has.
pub(crate) fn ids_next(conn: &Connection) -> rusqlite::Result<u64> {
    let mut statement = conn.prepare_cached("SELECT value FROM meta WHERE name = 'ids_next'")?;
    statement.query_row([], |row| row.get(0).map(i64::cast_unsigned))
}

pub(crate) fn run(conn: &Connection, sql: &str, values: &[&dyn ToSql]) -> Result<usize, Error> {
    conn.prepare_cached(sql).and_then(|mut statement| statement.execute(values)).map_err(of)
}

fn number(conn: &Connection, sql: &str, values: &[&dyn ToSql]) -> Result<Option<u32>, Error> {
    conn.prepare_cached(sql).and_then(|mut s| s.query_row(values, |row| row.get(0)).optional()).map_err(of)
}

fn app(
    conn: &Connection,
    namespace: &str,
    name: &str,
    pending_max: Option<u32>,
    rates: Option<&Rates>,
) -> Result<Reserved, Error> {
    let upsert = "INSERT INTO app (namespace, name, pending_max, rates) \
         VALUES (?1, ?2, coalesce(?3, ?4), coalesce(?5, '{}')) \
         ON CONFLICT DO UPDATE SET pending_max = coalesce(?3, pending_max), rates = coalesce(?5, rates) \
         RETURNING id, namespace, name, pending_max, rates";
    let mut statement = conn.prepare_cached(upsert).map_err(of)?;
    let rates = rates.map(|rates| serde_json::to_string(rates).expect("rates are plain data"));
    let values = params![namespace, name, pending_max, limits::PENDING_MAX, rates];
    statement.query_row(values, read_app).map(Reserved::App).map_err(of)
}

fn job_name(conn: &Connection, namespace: &str, name: &str, at: UnixMs) -> Result<Reserved, Error> {
    let taken = "SELECT job FROM job_name WHERE namespace = ?1 AND name = ?2";
    if let Some(job) = number(conn, taken, params![namespace, name])? {
        return Ok(Reserved::Taken(JobId(job)));
    }
    let next = number(conn, "SELECT value FROM meta WHERE name = 'jobs_next'", &[])?;
    let job =
        next.filter(|next| *next < JOBS_END).ok_or_else(|| Error::Corrupt("no job ids are left below 2^31".into()))?;
    run(conn, "UPDATE meta SET value = ?1 WHERE name = 'jobs_next'", &[&(job + 1)])?;
    let insert = "INSERT INTO job_name (namespace, name, job, at, is_used) VALUES (?1, ?2, ?3, ?4, 0)";
    run(conn, insert, params![namespace, name, job, at.0])?;
    Ok(Reserved::Job(JobId(job)))
}

fn job_name_back(conn: &Connection, job: JobId) -> Result<Reserved, Error> {
    let deleted = codec::job_state(rota_core::job::JobState::Deleted);
    if number(conn, "SELECT 1 FROM job WHERE id = ?1 AND state <> ?2", params![job.0, deleted])?.is_some() {
        return Ok(Reserved::Taken(job));
    }
    run(conn, "DELETE FROM job_name WHERE job = ?1", &[&job.0])?;
    Ok(Reserved::Done)
}

fn worker_name(conn: &Connection, app: AppId, name: &str) -> Result<Reserved, Error> {
    run(conn, "INSERT INTO worker_name (app, name) VALUES (?1, ?2) ON CONFLICT DO NOTHING", params![app.0, name])?;
    let id = number(conn, "SELECT id FROM worker_name WHERE app = ?1 AND name = ?2", params![app.0, name])?;
    Ok(id.map_or(Reserved::Unknown, |id| Reserved::Worker(WorkerId(id))))
}

fn request(
    conn: &Connection,
    job: JobId,
    request_id: &str,
    body_hash: &[u8; 32],
    at: UnixMs,
) -> Result<Reserved, Error> {
    if number(conn, "SELECT 1 FROM job WHERE id = ?1", &[&job.0])?.is_none() {
        return Ok(Reserved::Unknown);
    }
    let sql = "SELECT body_hash, at, run FROM request WHERE job = ?1 AND request_id = ?2";
    let mut statement = conn.prepare_cached(sql).map_err(of)?;
    let found = statement.query_row(params![job.0, request_id], |row| {
        let run = row.get::<_, Option<i64>>(2)?.map(|run| RunId(run.cast_unsigned()));
        Ok((row.get::<_, [u8; 32]>(0)?, UnixMs(row.get(1)?), run))
    });
    match found.optional().map_err(of)? {
        Some((hash, since, run)) if at.since_ms(since) < REQUEST_KEPT_MS => {
            Ok(if hash == *body_hash { Reserved::Answered(run) } else { Reserved::OtherBody })
        }
        Some(_) | None => {
            // A new row, at the end: rows stay in order of arrival.
            let insert = "INSERT OR REPLACE INTO request (job, request_id, body_hash, at) VALUES (?1, ?2, ?3, ?4)";
            run(conn, insert, params![job.0, request_id, body_hash, at.0])?;
            Ok(Reserved::New)
        }
    }
}

fn request_back(conn: &Connection, job: JobId, request_id: &str) -> Result<Reserved, Error> {
    run(conn, "DELETE FROM request WHERE job = ?1 AND request_id = ?2", params![job.0, request_id])?;
    Ok(Reserved::Done)
}

fn upstreams(conn: &Connection, job: JobId, upstreams: &[JobId], token: u64) -> Result<Reserved, Error> {
    let mut of = conn.prepare_cached("SELECT DISTINCT upstream FROM upstream WHERE job = ?1").map_err(of)?;
    let cycle = upstream::cycle(job, upstreams, |job| {
        of.query_map([job.0], |row| row.get(0).map(JobId))?.collect::<rusqlite::Result<Vec<JobId>>>()
    });
    if let Some(cycle) = cycle.map_err(crate::failure::of)? {
        return Ok(Reserved::Cycle(cycle));
    }
    for upstream in upstreams {
        let insert = "INSERT OR IGNORE INTO upstream (job, upstream, token) VALUES (?1, ?2, ?3)";
        run(conn, insert, params![job.0, upstream.0, token.cast_signed()])?;
    }
    Ok(Reserved::Done)
}

fn upstreams_back(conn: &Connection, job: JobId, token: u64) -> Result<Reserved, Error> {
    run(conn, "DELETE FROM upstream WHERE job = ?1 AND token = ?2", params![job.0, token.cast_signed()])?;
    Ok(Reserved::Done)
}

/// A scope as a number and an app.
fn scope_columns(scope: &Scope) -> (u8, Option<u32>) {
    match scope {
        Scope::Admin => (0, None),
        Scope::Read => (1, None),
        Scope::Worker(app) => (2, Some(app.0)),
    }
}

/// The scope that the columns say.
pub(crate) fn scope_of(scope: u8, app: Option<u32>) -> Option<Scope> {
    match (scope, app) {
        (0, None) => Some(Scope::Admin),
        (1, None) => Some(Scope::Read),
        (2, Some(app)) => Some(Scope::Worker(AppId(app))),
        (_, _) => None,
    }
}

fn keep_token(conn: &Connection, token: &Token) -> Result<Reserved, Error> {
    let (scope, app) = scope_columns(&token.scope);
    let insert = "INSERT INTO token (hash, scope, app, at) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
    run(conn, insert, params![token.hash, scope, app, token.at.0])?;
    Ok(Reserved::Done)
}

fn tokens_back(conn: &Connection, scope: &Scope) -> Result<Reserved, Error> {
    let (scope, app) = scope_columns(scope);
    let delete = "DELETE FROM token WHERE scope = ?1 AND app IS ?2 \
         AND id < (SELECT max(id) FROM token WHERE scope = ?1 AND app IS ?2)";
    run(conn, delete, params![scope, app])?;
    Ok(Reserved::Done)
}

fn keep_secret(conn: &Connection, secret: &StoredSecret, key: &Key) -> Result<Reserved, Error> {
    let (namespace, name) = (&secret.namespace, &secret.name);
    let before = conn
        .prepare_cached("SELECT namespace, name, value, at, by FROM secret WHERE namespace = ?1 AND name = ?2")
        .and_then(|mut ask| ask.query_row([namespace, name], |row| codec::secret(row, key)).optional())
        .map_err(of)?;
    if before.is_some_and(|before| before.value != secret.value) {
        retire(conn, (namespace, name), secret.at)?;
    }
    let sealed = key.seal(&secret.value.0, &codec::value_context(namespace, name))?;
    let upsert = "INSERT INTO secret (namespace, name, value, at, by) VALUES (?1, ?2, ?3, ?4, ?5) \
         ON CONFLICT DO UPDATE SET value = excluded.value, at = excluded.at, by = excluded.by";
    run(conn, upsert, params![namespace, name, sealed, secret.at.0, secret.by])?;
    Ok(Reserved::Done)
}

/// Keeps a value that goes out of use as it is sealed, and of a namespace no more than are looked for.
fn retire(conn: &Connection, (namespace, name): (&str, &str), at: UnixMs) -> Result<(), Error> {
    let keep = "INSERT INTO retired_secret (namespace, name, value, at, by) \
         SELECT namespace, name, value, ?3, by FROM secret WHERE namespace = ?1 AND name = ?2";
    run(conn, keep, params![namespace, name, at.0])?;
    let forget = "DELETE FROM retired_secret WHERE namespace = ?1 AND id <= \
         (SELECT id FROM retired_secret WHERE namespace = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)";
    run(conn, forget, params![namespace, RETIRED_MAX as i64])?;
    Ok(())
}

fn secret_back(conn: &Connection, (namespace, name): (&str, &str), at: UnixMs) -> Result<Reserved, Error> {
    retire(conn, (namespace, name), at)?;
    let removed = run(conn, "DELETE FROM secret WHERE namespace = ?1 AND name = ?2", params![namespace, name])?;
    Ok(if removed == 0 { Reserved::Unknown } else { Reserved::Done })
}
