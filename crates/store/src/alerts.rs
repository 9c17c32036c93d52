//! Alert rules, alarms, messages, and ends that nobody has judged yet.

use rota_core::alert::{Alarm, AlertId, Event, Key, Rule};
use rota_core::id::{JobId, RunId};
use rota_core::time::UnixMs;
use rota_port::alerts::{StoredAlert, StoredNotice, Tried, Work};
use rota_port::store::{Error, Reserved};
use rusqlite::types::Type;
use rusqlite::{Connection, Row, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::reserve::run;

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("plain data")
}

fn parse<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    serde_json::from_str(&text).map_err(|e| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(e)))
}

pub(crate) fn keep(
    conn: &Connection,
    (namespace, name): (&str, &str),
    rule: &Rule,
    at: UnixMs,
    by: &str,
) -> Result<Reserved, Error> {
    let upsert = "INSERT INTO alert (namespace, name, rule, at, by) VALUES (?1, ?2, ?3, ?4, ?5) \
         ON CONFLICT DO UPDATE SET rule = excluded.rule, at = excluded.at, by = excluded.by";
    run(conn, upsert, params![namespace, name, json(rule), at.0, by])?;
    Ok(Reserved::Done)
}

pub(crate) fn remove(conn: &Connection, namespace: &str, name: &str) -> Result<Reserved, Error> {
    let id = "(SELECT id FROM alert WHERE namespace = ?1 AND name = ?2)";
    for table in ["alarm", "notice"] {
        run(conn, &format!("DELETE FROM {table} WHERE alert = {id}"), params![namespace, name])?;
    }
    let removed = run(conn, "DELETE FROM alert WHERE namespace = ?1 AND name = ?2", params![namespace, name])?;
    Ok(if removed == 0 { Reserved::Unknown } else { Reserved::Done })
}

pub(crate) fn work(conn: &Connection, work: &Work) -> Result<Reserved, Error> {
    for heard in &work.heard {
        run(conn, "DELETE FROM alert_end WHERE run = ?1", params![heard.0.cast_signed()])?;
    }
    for (key, alarm) in &work.alarms {
        let (alert, job, event) = (key.alert.0, key.job.0, key.event.code());
        // A rule that was removed meanwhile takes all of its own with it.
        let upsert = "INSERT INTO alarm (alert, job, event, alarm) SELECT ?1, ?2, ?3, ?4 \
             WHERE EXISTS (SELECT 1 FROM alert WHERE id = ?1) \
             ON CONFLICT DO UPDATE SET alarm = excluded.alarm";
        match alarm {
            Some(alarm) => run(conn, upsert, params![alert, job, event, json(alarm)])?,
            None => {
                let delete = "DELETE FROM alarm WHERE alert = ?1 AND job = ?2 AND event = ?3";
                run(conn, delete, params![alert, job, event])?
            }
        };
    }
    for notice in &work.notices {
        let insert = "INSERT INTO notice (id, alert, at, notice, tries, next_at, error) \
             SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7 WHERE EXISTS (SELECT 1 FROM alert WHERE id = ?2)";
        let (id, alert) = (notice.id.cast_signed(), notice.notice.key.alert.0);
        let (at, next_at) = (notice.at.0, notice.next_at.0);
        run(conn, insert, params![id, alert, at, json(&notice.notice), notice.tries, next_at, notice.error])?;
    }
    for (id, tried) in &work.tried {
        let id = id.cast_signed();
        match tried {
            Tried::Delivered => {}
            Tried::Again { next_at, error } => {
                let update = "UPDATE notice SET tries = tries + 1, next_at = ?2, error = ?3 WHERE id = ?1";
                run(conn, update, params![id, next_at.0, error])?;
                continue;
            }
            Tried::GivenUp { error } => {
                let update = "UPDATE alert SET undelivered = undelivered + 1, last_error = ?2 \
                     WHERE id = (SELECT alert FROM notice WHERE id = ?1)";
                run(conn, update, params![id, error])?;
            }
        }
        run(conn, "DELETE FROM notice WHERE id = ?1", params![id])?;
    }
    Ok(Reserved::Done)
}

pub(crate) fn read(conn: &Connection) -> rusqlite::Result<Vec<StoredAlert>> {
    let sql = "SELECT id, namespace, name, rule, at, by, undelivered, last_error FROM alert ORDER BY namespace, name";
    let mut statement = conn.prepare_cached(sql)?;
    let rows = statement.query_map([], |row| {
        Ok(StoredAlert {
            id: AlertId(row.get(0)?),
            namespace: row.get(1)?,
            name: row.get(2)?,
            rule: parse(row, 3)?,
            at: UnixMs(row.get(4)?),
            by: row.get(5)?,
            undelivered: row.get::<_, i64>(6)?.cast_unsigned(),
            last_error: row.get(7)?,
        })
    })?;
    rows.collect()
}

pub(crate) fn read_alarms(conn: &Connection) -> rusqlite::Result<Vec<(Key, Alarm)>> {
    let mut statement = conn.prepare_cached("SELECT alert, job, event, alarm FROM alarm ORDER BY alert, job, event")?;
    let rows = statement.query_map([], |row| {
        let code: u8 = row.get(2)?;
        let event =
            Event::from_code(code).ok_or_else(|| rusqlite::Error::IntegralValueOutOfRange(2, i64::from(code)))?;
        Ok((Key { alert: AlertId(row.get(0)?), job: JobId(row.get(1)?), event }, parse(row, 3)?))
    })?;
    rows.collect()
}

pub(crate) fn read_notices(conn: &Connection) -> rusqlite::Result<Vec<StoredNotice>> {
    let mut statement = conn.prepare_cached("SELECT id, at, notice, tries, next_at, error FROM notice ORDER BY id")?;
    let rows = statement.query_map([], |row| {
        Ok(StoredNotice {
            id: row.get::<_, i64>(0)?.cast_unsigned(),
            at: UnixMs(row.get(1)?),
            notice: parse(row, 2)?,
            tries: row.get(3)?,
            next_at: UnixMs(row.get(4)?),
            error: row.get(5)?,
        })
    })?;
    rows.collect()
}

pub(crate) fn read_ends(conn: &Connection, limit: u32) -> rusqlite::Result<Vec<RunId>> {
    let mut statement = conn.prepare_cached("SELECT run FROM alert_end ORDER BY run LIMIT ?1")?;
    statement.query_map([limit], |row| Ok(RunId(row.get::<_, i64>(0)?.cast_unsigned())))?.collect()
}
