use tokio::runtime::Handle;

use crate::error::{Error, Result};

/// Returns the tokio runtime of the caller, without which `subject` can't wait or send.
pub(crate) fn runtime(subject: &str) -> Result<Handle> {
    Handle::try_current()
        .map_err(|_| Error::config(format!("{subject}: called outside of a tokio runtime")))
}
