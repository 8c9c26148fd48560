//! The Unix socket of an agent: which of two has its path, and which one removes it.
//!
//! Agents that start and end beside each other look at a path before they remove or bind it. A lock on the directory makes
//! one step of that.

use std::fs::{File, Permissions, TryLockError, symlink_metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::stat::{Mode, umask};
use tokio::net::UnixListener;

use crate::failure::{Code, Failure, Result};

/// How often a lock that another agent has is tried, and the pause in between. It has it for as long as it takes to bind.
const TRIES: u32 = 2_500;
const PAUSE: Duration = Duration::from_millis(2);

/// A path that this program has bound.
pub struct OwnSocket {
    path: PathBuf,
    /// Its device and inode, which is nobody else's as long as this program listens.
    bound: (u64, u64),
}

impl OwnSocket {
    /// Listens on a socket that has this mode and group. One that nobody listens on any more is replaced.
    pub fn bind(path: &Path, mode: u32, group: Option<u32>) -> Result<(UnixListener, OwnSocket)> {
        let refused = |why: String| refusal(path, &why);
        let _locked = lock_of(path).map_err(|why| refused(why.to_string()))?;
        match UnixStream::connect(path) {
            Ok(_) => return Err(refused("another program listens there".to_string())),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused && is_socket(path) => {
                std::fs::remove_file(path).map_err(|error| refused(error.to_string()))?;
            }
            // There is none, or binding says what is wrong.
            Err(_) => {}
        }
        // Nobody else comes in before the mode and the group are those that were asked for.
        let before = umask(Mode::from_bits_truncate(0o177));
        let listener = UnixListener::bind(path);
        umask(before);
        let listener = listener.map_err(|error| refused(error.to_string()))?;
        let bound = identity(path).ok_or_else(|| refused("it is gone already".to_string()))?;
        if let Some(group) = group {
            chown(path, None, Some(group))
                .map_err(|error| refused(format!("--socket-group {group}: {error}")))?;
        }
        std::fs::set_permissions(path, Permissions::from_mode(mode))
            .map_err(|error| refused(format!("--socket-mode {mode:04o}: {error}")))?;
        Ok((listener, OwnSocket { path: path.to_path_buf(), bound }))
    }

    /// Fails if whoever connects reaches another program, or none.
    pub fn check(&self) -> Result<()> {
        if self.is_own() {
            return Ok(());
        }
        Err(refusal(&self.path, "this program has bound it, and it is another's by now, or gone"))
    }

    /// Removes it, as long as this program listens on it. One that is another's by now stays.
    pub fn remove(&self) {
        // Where the lock can't be had, the look alone has to do.
        let _locked = lock_of(&self.path);
        if self.is_own() {
            // If it is gone already, nobody minds.
            let _ = std::fs::remove_file(&self.path);
        }
    }

    fn is_own(&self) -> bool {
        identity(&self.path) == Some(self.bound)
    }
}

fn refusal(path: &Path, why: &str) -> Failure {
    Failure::new(Code::Usage, format!("--socket {}: {why}", path.display()))
        .cure("name a path that no other program uses, in a directory that this user writes to")
}

/// Locks the directory of this path until it is dropped. None where the directory can't be read, or has no locks.
fn lock_of(path: &Path) -> std::result::Result<Option<File>, &'static str> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let Ok(directory) = File::open(parent.unwrap_or(Path::new("."))) else { return Ok(None) };
    for _ in 0..TRIES {
        match directory.try_lock() {
            Ok(()) => return Ok(Some(directory)),
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
            Err(TryLockError::Error(_)) => return Ok(None),
        }
    }
    Err("another program has locked its directory")
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

fn is_socket(path: &Path) -> bool {
    symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[tokio::test]
    async fn of_agents_that_start_at_once_one_has_the_socket_that_a_killed_one_left() {
        let name = format!("spindle-raced-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("agent.sock");
        let runtime = tokio::runtime::Handle::current();
        for round in 0..400 {
            // Its listener is gone.
            drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
            let start = Barrier::new(8);
            let binds = || {
                let _runtime = runtime.enter();
                start.wait();
                OwnSocket::bind(&path, 0o600, None).ok()
            };
            let bound: Vec<_> = std::thread::scope(|scope| {
                let all: Vec<_> = (0..8).map(|_| scope.spawn(binds)).collect();
                all.into_iter().filter_map(|one| one.join().unwrap()).collect()
            });
            assert_eq!(bound.len(), 1, "round {round}");
            let (_listener, socket) = &bound[0];
            assert!(socket.check().is_ok(), "round {round}");
            socket.remove();
        }
        // It is empty.
        std::fs::remove_dir(&directory).unwrap();
    }
}
