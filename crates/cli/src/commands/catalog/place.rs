//! Where the catalog is, and opening it.

use crate::fault::{Failed, Hinted, remark};
use anyhow::{Result, anyhow};
use arles_daemon::service::catalog::CATALOG_FILE;
use arles_learn::Catalog;
use arles_learn::catalog::disk::{Disk, DiskError};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

const VARIABLE: &str = "ARLES_CATALOG";

/// A file that may not be there yet.
pub(super) struct Place {
    pub(super) path: PathBuf,
    /// Whether nobody named it: then its folder is ours to make.
    by_default: bool,
}

/// The file that a flag names, or the environment, or nobody.
pub(super) fn find(flag: Option<&Path>) -> Result<Place> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(path) = flag.map(Path::to_owned).or_else(|| set(VARIABLE).map(PathBuf::from)) {
        // A daemon's state directory has its catalog in it.
        // The state folder of a daemon holds its catalog; any other folder is a slip.
        let inside = path.join(CATALOG_FILE);
        let path = if inside.is_file() { inside } else { path };
        return Ok(Place { path, by_default: false });
    }
    let data = data_folder(set("XDG_DATA_HOME"), set("HOME")).ok_or_else(|| {
        Hinted::new(
            "cannot tell where the catalog is: neither --catalog nor ARLES_CATALOG, XDG_DATA_HOME or HOME is set",
            "name a file with --catalog FILE",
        )
    })?;
    Ok(Place { path: data.join("arles/catalog.sqlite"), by_default: true })
}

/// The user's data folder by the XDG rules, which leave out what is not absolute.
fn data_folder(data_home: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let data_home = data_home.map(PathBuf::from).filter(|path| path.is_absolute());
    data_home.or_else(|| Some(PathBuf::from(home?).join(".local/share")))
}

impl Place {
    /// What is in it; it must be there.
    pub(super) fn read(&self) -> Result<Catalog> {
        self.say("");
        match Disk::read(&self.path) {
            Err(_) if !self.path.exists() => Err(Hinted::new(
                format!("{}: there is no catalog here", self.path.display()),
                "create one with 'arles catalog import FILE', or name another with --catalog FILE",
            )
            .into()),
            read => read.map_err(told),
        }
    }

    /// What is in it, if it is there.
    pub(super) fn read_if_there(&self) -> Result<Catalog> {
        if self.path.exists() { Disk::read(&self.path).map_err(told) } else { Ok(Catalog::default()) }
    }

    /// Opens it, or makes it.
    pub(super) fn open(&self) -> Result<Disk> {
        self.say(if self.path.exists() { "" } else { " (new)" });
        if let Some(folder) = self.path.parent().filter(|_| self.by_default) {
            std::fs::create_dir_all(folder).map_err(|error| {
                Failed(format!(
                    "cannot create the directory '{}' ({error}); name a file with --catalog FILE",
                    folder.display()
                ))
            })?;
        }
        Disk::open(&self.path).map_err(told)
    }

    fn say(&self, more: &str) {
        remark(format_args!("catalog: {}{more}", self.path.display()));
    }
}

/// An error of the disk on its way to the terminal.
pub(super) fn told(error: DiskError) -> anyhow::Error {
    match error {
        DiskError::Failed(sentence) => Failed(sentence).into(),
        DiskError::Refused(sentence) => anyhow!(sentence),
        DiskError::Value(error) => anyhow!(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_folder_is_where_xdg_says() {
        let check = |data: Option<&str>, home: Option<&str>, expect: Option<&str>| {
            assert_eq!(data_folder(data.map(Into::into), home.map(Into::into)), expect.map(PathBuf::from));
        };
        check(Some("/data"), Some("/home/ann"), Some("/data"));
        check(Some("data"), Some("/home/ann"), Some("/home/ann/.local/share"));
        check(None, Some("/home/ann"), Some("/home/ann/.local/share"));
        check(None, None, None);
    }
}
