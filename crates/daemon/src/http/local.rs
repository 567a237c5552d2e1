//! The socket in the state folder: the way in for the user that runs the daemon.
//!
//! Whoever can bind the daemon's port while the daemon is away can read what clients send there, tokens included. Nobody but the owner of the state
//! folder can bind this socket, and the kernel says who connects to it, so no secret needs to be sent at all.

use super::ServeError;
use arles_api::socket;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tokio::net::{UnixListener, UnixStream};

/// The user that may do everything.
const ROOT: u32 = 0;

/// The socket, open; dropping it removes the file.
#[derive(Debug)]
pub struct LocalSocket {
    listener: UnixListener,
    path: PathBuf,
    /// User of this process, and the file's number.
    owner: u32,
    inode: u64,
}

impl LocalSocket {
    /// Opens the socket. One that a killed daemon has left is replaced: the caller holds the lock of the folder, so nobody listens there.
    ///
    /// # Errors
    /// When something else is at that path, or the folder cannot be written. Must be called inside a runtime.
    pub fn bind(path: &Path) -> Result<Self, ServeError> {
        let cannot = |error: &dyn std::fmt::Display| {
            let hint = "use a folder with --state that can be written, on a local file system";
            ServeError::Listen(format!("cannot open the socket {} ({error}); {hint}", path.display()))
        };
        match std::fs::symlink_metadata(path) {
            Ok(there) if there.file_type().is_socket() => std::fs::remove_file(path).map_err(|e| cannot(&e))?,
            Ok(_) => return Err(cannot(&"something that is not a socket has this name")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(cannot(&error)),
        }
        let listener =
            socket::short(path).and_then(|short| UnixListener::bind(short.path())).map_err(|e| cannot(&e))?;
        // Until here others may connect, where the folder lets them; they are not the owner, and need a token like everybody.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(|e| cannot(&e))?;
        let file = std::fs::symlink_metadata(path).map_err(|e| cannot(&e))?;
        Ok(Self { listener, path: path.to_owned(), owner: file.uid(), inode: file.ino() })
    }

    /// The next connection, with the user at its other end and whether that is the daemon's own or root.
    pub(super) async fn accept(&self) -> io::Result<(UnixStream, Option<u32>, bool)> {
        let (stream, _) = self.listener.accept().await?;
        let uid = stream.peer_cred().ok().map(|peer| peer.uid());
        let owner = uid.is_some_and(|uid| uid == self.owner || uid == ROOT);
        Ok((stream, uid, owner))
    }
}

impl Drop for LocalSocket {
    fn drop(&mut self) {
        // Another daemon may have replaced it meanwhile.
        if std::fs::symlink_metadata(&self.path).is_ok_and(|file| file.ino() == self.inode) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
