//! Segment files: records in order of arrival, and, once a segment is sealed, an index beside it that
//! is searched in place. Of the segment that is being written the index is in memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use rota_core::id::RunId;
use rota_core::time::UnixMs;
use rota_port::logs::LogKey;

use super::Limits;
use super::record::{Fields, HEADER_BYTES, Header, read};
use super::tail::{self, Part};
use crate::dir::private;
use crate::open::OpenError;

const INDEX_MAGIC: &[u8; 8] = b"rotalog1";
const INDEX_HEADER_BYTES: u64 = 24;
const ENTRY_BYTES: u64 = 40;

/// Where the text of a record is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Entry {
    pub(super) key: LogKey,
    pub(super) offset: u64,
    /// Of the text, in its file.
    pub(super) position: u32,
    pub(super) bytes: u32,
    pub(super) is_close: bool,
}

/// A sealed segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sealed {
    id: u32,
    entries: u64,
    first: RunId,
    last: RunId,
    newest: UnixMs,
    bytes: u64,
}

/// The segment that is being written.
#[derive(Debug)]
struct Current {
    id: u32,
    bytes: u64,
    entries: BTreeMap<LogKey, Vec<Entry>>,
    oldest: Option<UnixMs>,
    newest: UnixMs,
}

#[derive(Debug)]
struct State {
    sealed: Vec<Sealed>,
    current: Current,
    tails: BTreeMap<LogKey, Vec<Part>>,
}

/// A stretch of a log, and where it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) path: PathBuf,
    pub(super) position: u64,
}

/// All that is there of a log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Found {
    /// In order of offset.
    pub(super) pieces: Vec<Piece>,
    pub(super) is_closed: bool,
}

impl Found {
    /// Where the log ends.
    pub(super) fn end(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.offset + piece.bytes).max().unwrap_or(0)
    }
}

/// All segments of a directory: written by one, read by many.
#[derive(Debug)]
pub(super) struct Segments {
    dir: PathBuf,
    limits: Limits,
    state: Mutex<State>,
}

impl Segments {
    pub(super) fn open(dir: &Path, limits: Limits) -> Result<Segments, OpenError> {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.and_then(|()| Segments::load(dir, limits))
            .map_err(|source| OpenError::file("open the logs in", dir, source))
    }

    fn load(dir: &Path, limits: Limits) -> io::Result<Segments> {
        let mut ids = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "log") {
                ids.extend(path.file_stem().and_then(|stem| stem.to_str()?.parse::<u32>().ok()));
            }
        }
        ids.sort_unstable();
        let mut sealed = Vec::new();
        let mut current = Current::begin(ids.last().map_or(1, |last| last + 1));
        for (at, id) in ids.iter().enumerate() {
            let is_last = at + 1 == ids.len();
            match read_index(dir, *id)? {
                Some(index) => sealed.push(index),
                None if is_last => current = recover(dir, *id)?,
                // A crash came while it was being sealed, or removed.
                None => sealed.extend(write_index(dir, &recover(dir, *id)?)?),
            }
        }
        let state = State { sealed, current, tails: tail::load(dir)? };
        Ok(Segments { dir: dir.to_owned(), limits, state: Mutex::new(state) })
    }

    /// The highest run that any segment has: what comes above it is new.
    pub(super) fn newest_run(&self) -> RunId {
        let state = self.lock();
        let sealed = state.sealed.iter().map(|sealed| sealed.last).max();
        let current = state.current.entries.keys().next_back().map(|key| key.run);
        let tails = state.tails.keys().next_back().map(|key| key.run);
        sealed.max(current).max(tails).unwrap_or(RunId(0))
    }

    /// All that is there of a log.
    pub(super) fn find(&self, key: LogKey) -> io::Result<Found> {
        let (sealed, mut entries, current, tails) = {
            let state = self.lock();
            let may_have = |sealed: &&Sealed| sealed.first <= key.run && key.run <= sealed.last;
            let sealed: Vec<Sealed> = state.sealed.iter().filter(may_have).copied().collect();
            let entries = state.current.entries.get(&key).cloned().unwrap_or_default();
            (sealed, entries, state.current.id, state.tails.get(&key).cloned().unwrap_or_default())
        };
        let mut found = Found::default();
        for segment in sealed {
            match search_index(&self.dir, segment, key) {
                Ok(entries) => self.gather(&mut found, segment.id, &entries),
                // Swept since the list was made.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        entries.sort_unstable();
        self.gather(&mut found, current, &entries);
        for part in tails {
            found.pieces.push(Piece { offset: part.offset, bytes: part.bytes, path: part.path, position: 0 });
        }
        found.pieces.sort_by_key(|piece| piece.offset);
        Ok(found)
    }

    fn gather(&self, found: &mut Found, segment: u32, entries: &[Entry]) {
        for entry in entries {
            found.is_closed |= entry.is_close;
            if entry.bytes > 0 {
                found.pieces.push(Piece {
                    offset: entry.offset,
                    bytes: u64::from(entry.bytes),
                    path: log_path(&self.dir, segment),
                    position: u64::from(entry.position),
                });
            }
        }
    }

    /// Appends encoded records, with where each one's text is in them; all or nothing.
    pub(super) fn append(&self, records: &[u8], entries: &[(Entry, UnixMs)]) -> io::Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        let (path, start) = {
            let state = self.lock();
            (log_path(&self.dir, state.current.id), state.current.bytes)
        };
        let file = private().truncate(false).open(path)?;
        if let Err(error) = file.write_all_at(records, start) {
            file.set_len(start)?;
            return Err(error);
        }
        let mut state = self.lock();
        let current = &mut state.current;
        current.bytes += records.len() as u64;
        let base = u32::try_from(start).map_err(io::Error::other)?;
        for (entry, at) in entries {
            let moved = Entry { position: entry.position + base, ..*entry };
            current.entries.entry(entry.key).or_default().push(moved);
            current.oldest.get_or_insert(*at);
            current.newest = current.newest.max(*at);
        }
        Ok(())
    }

    /// The parts of a log's tail, as they are now; none removes them from sight.
    pub(super) fn show_tail(&self, key: LogKey, parts: Option<Vec<Part>>) {
        let mut state = self.lock();
        match parts {
            Some(parts) => state.tails.insert(key, parts),
            None => state.tails.remove(&key),
        };
    }

    pub(super) fn tail(&self, key: LogKey) -> Vec<Part> {
        self.lock().tails.get(&key).cloned().unwrap_or_default()
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Seals the current segment if it is full or spans more than a day, and removes what is too old or too much.
    pub(super) fn turn_over(&self) -> io::Result<()> {
        const SPAN_MS: i64 = 24 * 3_600_000;
        let sealed = {
            let state = self.lock();
            let current = &state.current;
            let is_old = current.oldest.is_some_and(|oldest| current.newest.since_ms(oldest) >= SPAN_MS);
            if current.bytes < self.limits.segment_bytes && !is_old {
                return Ok(());
            }
            // Readers wait for this: it is rare, and short beside the writing of a segment.
            write_index(&self.dir, current)?
        };
        let mut state = self.lock();
        let (ended, newest) = (state.current.id, state.current.newest);
        state.sealed.extend(sealed);
        state.current = Current::begin(ended + 1);
        let removed = state.take_excess(self.limits, newest);
        let forgotten = state.take_old_tails(self.limits, &log_path(&self.dir, ended))?;
        drop(state);
        for id in removed {
            std::fs::remove_file(index_path(&self.dir, id))?;
            std::fs::remove_file(log_path(&self.dir, id))?;
        }
        forgotten.iter().try_for_each(Part::remove)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds this lock")
    }
}

impl State {
    /// Takes segments out that are older than the limit, or that are more than may be kept; oldest first.
    fn take_excess(&mut self, limits: Limits, now: UnixMs) -> Vec<u32> {
        let mut total: u64 = self.sealed.iter().map(|sealed| sealed.bytes).sum();
        let mut removed = Vec::new();
        self.sealed.retain(|sealed| {
            let is_kept = now.since_ms(sealed.newest) < limits.age_ms && total <= limits.total_bytes;
            if !is_kept {
                total -= sealed.bytes;
                removed.push(sealed.id);
            }
            is_kept
        });
        removed
    }

    /// Takes the tails out of logs that nobody closed, and that nobody wrote to for longer than the limit.
    fn take_old_tails(&mut self, limits: Limits, now: &Path) -> io::Result<Vec<Part>> {
        let mut removed = Vec::new();
        for (key, parts) in &self.tails {
            if parts.last().map_or(Ok(true), |part| part.is_older(now, limits.age_ms))? {
                removed.push(*key);
            }
        }
        Ok(removed.iter().flat_map(|key| self.tails.remove(key).unwrap_or_default()).collect())
    }
}

impl Current {
    fn begin(id: u32) -> Current {
        Current { id, bytes: 0, entries: BTreeMap::new(), oldest: None, newest: UnixMs(0) }
    }
}

fn log_path(dir: &Path, id: u32) -> PathBuf {
    dir.join(format!("{id:08}.log"))
}

fn index_path(dir: &Path, id: u32) -> PathBuf {
    dir.join(format!("{id:08}.idx"))
}

/// Reads a segment's records anew, and cuts off what a crash tore.
fn recover(dir: &Path, id: u32) -> io::Result<Current> {
    let path = log_path(dir, id);
    let bytes = std::fs::read(&path)?;
    let mut current = Current::begin(id);
    let mut at = 0;
    while let Some(Header { key, offset, at: time, is_close, text_bytes }) = read(&bytes[at..]) {
        let position = u32::try_from(at + HEADER_BYTES).map_err(io::Error::other)?;
        let entry = Entry { key, offset, position, bytes: text_bytes, is_close };
        current.entries.entry(key).or_default().push(entry);
        current.oldest.get_or_insert(time);
        current.newest = current.newest.max(time);
        at += HEADER_BYTES + text_bytes as usize;
    }
    if at < bytes.len() {
        tracing::warn!(segment = id, bytes = bytes.len() - at, "log_tail_torn");
        private().truncate(false).open(&path)?.set_len(at as u64)?;
    }
    current.bytes = at as u64;
    Ok(current)
}

/// Writes the index of a segment that ends, and makes both durable; none if it is empty.
fn write_index(dir: &Path, current: &Current) -> io::Result<Option<Sealed>> {
    let (Some(first), Some(last)) = (current.entries.keys().next(), current.entries.keys().next_back()) else {
        return Ok(None);
    };
    let mut out = Vec::new();
    let mut count = 0_u64;
    out.extend_from_slice(INDEX_MAGIC);
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&current.newest.0.to_le_bytes());
    for entries in current.entries.values() {
        let mut entries = entries.clone();
        entries.sort_unstable();
        for entry in entries {
            write_entry(&mut out, &entry);
            count += 1;
        }
    }
    out[8..16].copy_from_slice(&count.to_le_bytes());
    File::open(log_path(dir, current.id))?.sync_all()?;
    let path = index_path(dir, current.id);
    let fresh = path.with_extension("idx.new");
    let mut file = private().truncate(true).open(&fresh)?;
    file.write_all(&out)?;
    file.sync_all()?;
    std::fs::rename(&fresh, &path)?;
    let (first, last) = (first.run, last.run);
    Ok(Some(Sealed { id: current.id, entries: count, first, last, newest: current.newest, bytes: current.bytes }))
}

fn write_entry(out: &mut Vec<u8>, entry: &Entry) {
    out.extend_from_slice(&entry.key.run.0.to_le_bytes());
    out.extend_from_slice(&entry.key.shard.to_le_bytes());
    out.extend_from_slice(&entry.key.no.to_le_bytes());
    out.extend_from_slice(&entry.offset.to_le_bytes());
    out.extend_from_slice(&entry.position.to_le_bytes());
    out.extend_from_slice(&entry.bytes.to_le_bytes());
    out.extend_from_slice(&u64::from(entry.is_close).to_le_bytes());
}

fn read_entry(bytes: &[u8]) -> Option<Entry> {
    let mut fields = Fields(bytes);
    let key = LogKey { run: RunId(fields.u64()?), shard: fields.u32()?, no: fields.u32()? };
    let (offset, position, bytes) = (fields.u64()?, fields.u32()?, fields.u32()?);
    Some(Entry { key, offset, position, bytes, is_close: fields.u64()? != 0 })
}

/// What an index's header says; none if there is no index, or half a one.
fn read_index(dir: &Path, id: u32) -> io::Result<Option<Sealed>> {
    let mut file = match File::open(index_path(dir, id)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let length = file.metadata()?.len();
    let mut header = [0; INDEX_HEADER_BYTES as usize];
    if length < INDEX_HEADER_BYTES + ENTRY_BYTES || file.read_exact(&mut header).is_err() {
        return Ok(None);
    }
    let mut fields = Fields(&header[INDEX_MAGIC.len()..]);
    let (Some(entries), Some(newest)) = (fields.u64(), fields.u64()) else { return Ok(None) };
    if !header.starts_with(INDEX_MAGIC) || entries.checked_mul(ENTRY_BYTES) != Some(length - INDEX_HEADER_BYTES) {
        return Ok(None);
    }
    let (first, last) = (entry_at(&file, 0)?.key.run, entry_at(&file, entries - 1)?.key.run);
    let bytes = std::fs::metadata(log_path(dir, id))?.len();
    Ok(Some(Sealed { id, entries, first, last, newest: UnixMs(newest.cast_signed()), bytes }))
}

fn entry_at(file: &File, index: u64) -> io::Result<Entry> {
    let mut bytes = [0; ENTRY_BYTES as usize];
    file.read_exact_at(&mut bytes, INDEX_HEADER_BYTES + index * ENTRY_BYTES)?;
    read_entry(&bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// All entries of a log in a sealed segment.
fn search_index(dir: &Path, segment: Sealed, key: LogKey) -> io::Result<Vec<Entry>> {
    let file = File::open(index_path(dir, segment.id))?;
    let (mut low, mut high) = (0, segment.entries);
    while low < high {
        let middle = low + (high - low) / 2;
        if entry_at(&file, middle)?.key < key {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    let mut found = Vec::new();
    for index in low..segment.entries {
        let entry = entry_at(&file, index)?;
        if entry.key != key {
            break;
        }
        found.push(entry);
    }
    Ok(found)
}
