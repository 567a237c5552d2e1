//! Data that is beside the repository, where it is there at all.

use std::path::{Path, PathBuf};

/// A file of `../shared`; where it is not there, a line says that the test is skipped.
pub(crate) fn shared(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(name);
    if !path.exists() {
        println!("skipped: {} is not there", path.display());
    }
    path.exists().then_some(path)
}
