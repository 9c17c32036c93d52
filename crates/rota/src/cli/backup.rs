//! `rota backup` and `rota restore`.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rota_core::restore::Since;
use rota_core::time::UnixMs;
use rota_port::backup::Contents;
use rota_store::backup::{Manifest, Restore, RestoreError, Secrets, write_offline};
use serde::Serialize;

use super::client::{self, Client};
use super::credentials::{self, Credentials};
use super::out::Out;
use crate::args::{BackupArgs, Common, RestoreArgs, SinceBackup};
use crate::clock;
use crate::exit::Failure;
use crate::worker::chain;

/// What was written.
#[derive(Serialize)]
struct Written {
    file: PathBuf,
    bytes: u64,
    has_key: bool,
    has_logs: bool,
}

/// Writes a backup beside its place, and moves it there once it is whole and on the disk.
pub(crate) fn backup(common: &Common, out: Out, args: &BackupArgs) -> Result<(), Failure> {
    if args.file.exists() {
        let hint = "a backup never replaces another one; name a new file".to_owned();
        return Err(Failure::usage(format!("{} is there already", args.file.display()), Some(hint)));
    }
    let part = part_of(&args.file);
    let bytes = write(common, args, &part).inspect_err(|_| {
        // It may not have been made at all.
        let _ = std::fs::remove_file(&part);
    })?;
    let written = Written { file: args.file.clone(), bytes, has_key: args.with_key, has_logs: args.logs };
    out.show(&written, |written| {
        let mut text = format!("{}  {} bytes\n", written.file.display(), written.bytes);
        if !written.has_key {
            text.push_str(
                "without the key of its secrets: keep `rota.key` of the data directory in another place, \
                 or give --with-key\n",
            );
        }
        text
    })
}

fn part_of(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".part");
    PathBuf::from(name)
}

fn write(common: &Common, args: &BackupArgs, part: &Path) -> Result<u64, Failure> {
    let cannot = |error: std::io::Error| Failure::failed("failed", format!("{}: {error}", part.display()));
    let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(part).map_err(cannot)?;
    let mut to = BufWriter::new(file);
    let contents = Contents { has_key: args.with_key, has_logs: args.logs };
    match &args.data {
        Some(data) => write_offline(data, clock::now(), contents, &mut to)
            .map_err(|error| Failure::failed("backup_failed", chain(&error)))?,
        None => {
            let credentials = Credentials::find(common, Path::new(credentials::FILE))?;
            let client = Client::new(credentials, &common.namespace)?;
            let flag = |is_set: bool| is_set.then_some("true");
            let path = client::Path::of(&["server", "backup"]);
            let path = path.with("key", flag(args.with_key)).with("logs", flag(args.logs));
            crate::current_thread()?.block_on(client.download(path, &mut to))?;
        }
    }
    to.flush().map_err(cannot)?;
    let file = to.into_inner().map_err(|error| cannot(error.into_error()))?;
    file.sync_all().map_err(cannot)?;
    let bytes = file.metadata().map_err(cannot)?.len();
    std::fs::rename(part, &args.file).map_err(cannot)?;
    Ok(bytes)
}

/// What was restored, and decided.
#[derive(Serialize)]
struct Done {
    data: PathBuf,
    backup: Manifest,
    taken_at: String,
    /// Slots since the backup that got a row.
    slots_covered: u64,
    /// Jobs whose newest slot since the backup fires.
    jobs_firing: u64,
    /// Runs that were open in the backup.
    runs_lost: u64,
    /// Runs that ends of others were about to fire.
    runs_not_fired: u64,
}

/// Restores into a new directory; no server is asked, and none may have it open.
pub(crate) fn restore(out: Out, args: &RestoreArgs) -> Result<(), Failure> {
    let file =
        File::open(&args.file).map_err(|error| Failure::usage(format!("{}: {error}", args.file.display()), None))?;
    let since = match args.since_backup {
        SinceBackup::Skip => Since::Skip,
        SinceBackup::FireOnce => Since::FireOnce,
    };
    let secrets = match (&args.key, args.drop_secrets) {
        (Some(key), _) => Secrets::File(key.clone()),
        (None, true) => Secrets::Dropped,
        (None, false) => Secrets::Inside,
    };
    let what = Restore { dir: args.data.clone(), since, secrets, now: clock::now() };
    let restored = rota_store::backup::restore(&mut BufReader::new(file), &what).map_err(refused)?;
    let done = Done {
        data: args.data.clone(),
        taken_at: UnixMs(restored.manifest.taken_at_ms).to_string(),
        backup: restored.manifest,
        slots_covered: restored.counts.slots,
        jobs_firing: restored.counts.firing,
        runs_lost: restored.counts.runs,
        runs_not_fired: restored.counts.fired,
    };
    out.show(&done, text)
}

fn text(done: &Done) -> String {
    let data = done.data.display();
    format!(
        "{data}  as of {}\n\
         {} slots since then are covered by rows (why: restored), {} jobs fire their newest one\n\
         {} runs that were open then are lost (why: restored): they may have ended since\n\
         {} jobs that ends of runs were about to fire are not fired (why: restored)\n\
         frozen  nothing starts before you have looked\n\
         next    stop the old server for good, then: rota serve --data {data}; rota thaw\n",
        done.taken_at, done.slots_covered, done.jobs_firing, done.runs_lost, done.runs_not_fired
    )
}

fn refused(error: RestoreError) -> Failure {
    let text = chain(&error);
    match error {
        RestoreError::NoKey => Failure::usage(text, Some("--key FILE, or --drop-secrets".to_owned())),
        RestoreError::NotEmpty { .. } | RestoreError::ClockBehind { .. } => Failure::usage(text, None),
        RestoreError::Damaged(_) | RestoreError::Newer { .. } | RestoreError::Open(_) | RestoreError::Store(_) => {
            Failure::failed("restore_failed", text)
        }
    }
}
