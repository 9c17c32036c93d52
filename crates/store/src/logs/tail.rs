//! The end of a log that has outgrown its head: at most two files of plain text. The newer one grows;
//! when it is full, the older one is thrown away and the next one begins.
//!
//! A file's name says which log it is of, and at which position of the log it begins.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use rota_core::id::RunId;
use rota_port::logs::LogKey;

use crate::dir::private;

/// One of a log's tail files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Part {
    pub(super) path: PathBuf,
    /// Where it begins in the whole log.
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

impl Part {
    pub(super) fn end(&self) -> u64 {
        self.offset + self.bytes
    }

    /// An empty part; its file comes with its first text.
    pub(super) fn begin(dir: &Path, key: LogKey, offset: u64) -> Part {
        let name = format!("{}-{}-{}-{offset}.tail", key.run.0, key.shard, key.no);
        Part { path: dir.join(name), offset, bytes: 0 }
    }

    /// Appends text, or leaves the part as it was.
    pub(super) fn append(&mut self, text: &[u8]) -> io::Result<()> {
        let mut file = private().append(true).open(&self.path)?;
        if let Err(error) = file.write_all(text) {
            file.set_len(self.bytes)?;
            return Err(error);
        }
        self.bytes += text.len() as u64;
        Ok(())
    }

    pub(super) fn remove(&self) -> io::Result<()> {
        std::fs::remove_file(&self.path)
    }

    /// Whether nothing was appended for `age_ms` when `now`, another file, was last written.
    pub(super) fn is_older(&self, now: &Path, age_ms: i64) -> io::Result<bool> {
        let written = |path: &Path| std::fs::metadata(path)?.modified();
        let age = written(now)?.duration_since(written(&self.path)?).unwrap_or_default();
        Ok(age.as_millis() >= u128::from(age_ms.unsigned_abs()))
    }

    pub(super) fn read(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(&self.path)?.take(self.bytes).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// The tails that are there after a start, by log, in order of position. What a crash tore off the end
/// of a file (a line without its end, bytes that were never written) is cut off.
pub(super) fn load(dir: &Path) -> io::Result<BTreeMap<LogKey, Vec<Part>>> {
    let mut tails: BTreeMap<LogKey, Vec<Part>> = BTreeMap::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let Some((key, offset)) = parse(&path) else { continue };
        let mut part = Part { path, offset, bytes: 0 };
        let text = std::fs::read(&part.path)?;
        let written = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        let whole = text[..written].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        private().open(&part.path)?.set_len(whole as u64)?;
        part.bytes = whole as u64;
        tails.entry(key).or_default().push(part);
    }
    for parts in tails.values_mut() {
        parts.sort_by_key(|part| part.offset);
    }
    Ok(tails)
}

fn parse(path: &Path) -> Option<(LogKey, u64)> {
    let name = path.file_name()?.to_str()?.strip_suffix(".tail")?;
    let mut numbers = name.split('-');
    let key = LogKey {
        run: RunId(numbers.next()?.parse().ok()?),
        shard: numbers.next()?.parse().ok()?,
        no: numbers.next()?.parse().ok()?,
    };
    let offset = numbers.next()?.parse().ok()?;
    numbers.next().is_none().then_some((key, offset))
}
