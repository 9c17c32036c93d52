//! A folder that goes with its story, and is kept when the story fails: what is in it tells why.

use std::path::Path;

use tempfile::TempDir;

pub(crate) struct Folder(Option<TempDir>);

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder(Some(tempfile::tempdir().unwrap()))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.as_ref().expect("it is taken at its end").path()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Some(folder) = self.0.take().filter(|_| std::thread::panicking()) {
            println!("kept: {}", folder.keep().display());
        }
    }
}
