//! The SQLite store passes the suite.
#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use rota_port::conformance::Opened;

/// One directory, opened again and again.
fn open() -> impl FnMut() -> Opened {
    let dir = tempfile::tempdir().unwrap();
    move || {
        let (store, query) = rota_store::open(dir.path(), 16).unwrap();
        (Box::new(store), Box::new(query))
    }
}

rota_port::store_suite!(open());
