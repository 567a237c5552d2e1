//! Paths of Unix sockets, for both ends of a connection.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Name of the daemon's socket in its state folder.
pub const FILE: &str = "arles.sock";

/// Longest path that the kernel takes, less a margin for the byte that ends it.
const LONGEST: usize = 100;

/// A path that is short enough to bind or to connect to, as long as this value lives.
#[derive(Debug)]
pub struct ShortPath {
    path: PathBuf,
    /// The folder, held open: the path leads through its descriptor.
    _folder: Option<File>,
}

impl ShortPath {
    /// Good for one call to bind or connect, not for keeping.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The same socket by a path that is short enough: the kernel refuses more than 107 bytes, and folders may be deep.
///
/// # Errors
/// When the folder of a long path cannot be opened.
pub fn short(path: &Path) -> io::Result<ShortPath> {
    if path.as_os_str().len() <= LONGEST {
        return Ok(ShortPath { path: path.to_owned(), _folder: None });
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path is too long for a socket"));
    };
    let folder = File::open(parent)?;
    let path = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
    Ok(ShortPath { path, _folder: Some(folder) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn deep_folders_have_sockets_too() {
        let root = std::env::temp_dir().join(format!("arles-socket-{}", std::process::id()));
        let folder = root.join("a-rather-long-name-of-a-folder".repeat(5));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join(FILE);
        let listener = UnixListener::bind(short(&path).unwrap().path()).unwrap();
        assert!(path.exists());
        drop(UnixStream::connect(short(&path).unwrap().path()).unwrap());
        drop(listener);
        std::fs::remove_dir_all(root).unwrap();
    }
}
