//! The secret that each request carries, in a file that may be written anew while this program runs.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use subtle::ConstantTimeEq as _;

use crate::failure::{Code, Failure, Result};

/// Shorter ones can be guessed.
const TOKEN_BYTES_MIN: usize = 16;

/// Anybody on the host: such a secret is none.
const OTHERS: u32 = 0o006;

pub struct TokenFile {
    path: PathBuf,
    /// The file as it was read last, and the secret.
    known: Mutex<(Version, String)>,
}

/// A file that was written anew differs in one of these.
type Version = (u64, i64, i64, u64);

impl TokenFile {
    pub fn read(path: &Path) -> Result<TokenFile> {
        let known = read(path).map_err(|why| {
            Failure::new(Code::Usage, format!("--token-file {}: {why}", path.display())).cure(
                format!(
                    "write a secret of at least {TOKEN_BYTES_MIN} bytes into it, with mode 0640"
                ),
            )
        })?;
        Ok(TokenFile { path: path.to_path_buf(), known: Mutex::new(known) })
    }

    /// True if this is the secret. What was read last stays the secret while the file can't be read.
    pub fn allows(&self, given: &str) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = std::fs::metadata(&self.path).is_ok_and(|found| version(&found) != known.0);
        if is_new && let Ok(newer) = read(&self.path) {
            *known = newer;
        }
        // In a time that doesn't tell how many bytes are right.
        given.as_bytes().ct_eq(known.1.as_bytes()).into()
    }
}

fn read(path: &Path) -> std::result::Result<(Version, String), String> {
    let said = |error: std::io::Error| error.to_string();
    let found = std::fs::metadata(path).map_err(said)?;
    let mode = found.mode() & 0o777;
    if mode & OTHERS != 0 {
        return Err(format!("its mode is {mode:04o}, so that every user reads or writes it"));
    }
    let text = std::fs::read_to_string(path).map_err(said)?;
    let token = text.trim();
    if token.len() < TOKEN_BYTES_MIN {
        return Err("the token is too short".to_string());
    }
    Ok((version(&found), token.to_string()))
}

fn version(found: &Metadata) -> Version {
    (found.ino(), found.mtime(), found.mtime_nsec(), found.len())
}
