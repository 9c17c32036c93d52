//! The reference passes the suite.

use rota_port::conformance::Opened;
use rota_port::memory::MemoryStore;

/// Handles of one store.
fn open() -> impl FnMut() -> Opened {
    let store = MemoryStore::new(16);
    move || (Box::new(store.clone()), Box::new(store.clone()))
}

rota_port::store_suite!(open());
