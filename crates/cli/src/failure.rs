//! An error, its cure, and the exit code that says so to a script.

use std::fmt;
use std::process::ExitCode;

use clap::error::ErrorKind;
use serde::Serialize;
use tokio::task::JoinError;

use crate::arguments::Form;
use crate::output::{complain, escaped, notice};
use crate::place::emulator;

/// Why a command ends without having done what it says.
#[derive(Debug)]
pub struct Failure {
    code: Code,
    message: String,
    cure: Option<String>,
}

/// The exit codes; `spindle --help` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    No = 1,
    Usage = 2,
    Unreachable = 3,
    Missing = 4,
    Unknown = 5,
    Unconfirmed = 6,
    NoDatabase = 7,
    Denied = 8,
    System = 9,
    NotAcquired = 75,
    Failed = 122,
    Unreleased = 123,
    Stopped = 124,
    NotStarted = 125,
}

pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub fn new(code: Code, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into(), cure: None }
    }

    /// An error of the command line: its first paragraph is the error, and the rest its cure.
    pub fn usage(error: &clap::Error) -> Failure {
        if error.kind() == ErrorKind::MissingSubcommand {
            return Failure::new(Code::Usage, "no command is named")
                .cure("`spindle --help` lists them");
        }
        let text = error.to_string();
        let in_one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut paragraphs = text.split("\n\n").map(in_one_line);
        let first = paragraphs.next().unwrap_or_default();
        let said = first.strip_prefix("error: ").unwrap_or(&first);
        Failure::new(Code::Usage, said).cure(paragraphs.collect::<Vec<_>>().join("; "))
    }

    /// A task of the program that panicked.
    pub fn of_task(error: &JoinError) -> Failure {
        Failure::new(Code::System, format!("a task failed: {error}"))
    }

    pub fn cure(mut self, cure: impl Into<String>) -> Failure {
        self.cure = Some(cure.into());
        self
    }

    pub fn with_code(mut self, code: Code) -> Failure {
        self.code = code;
        self
    }

    /// Returns true if a wait may cure it: Spanner, the credentials or the metadata server aren't there
    /// yet, or are overloaded.
    pub fn passes(&self) -> bool {
        self.code == Code::Unreachable
    }

    /// Returns what went wrong, without the cure.
    pub fn message(&self) -> &str {
        &self.message
    }

    pub fn code(&self) -> Code {
        self.code
    }

    /// Tells it on standard error, in the form that the output has.
    pub fn tell(&self, form: Form) {
        let Failure { code, message: error, cure } = self;
        let told = Told { error, cure: cure.as_deref(), exit_code: *code as u8 };
        match form {
            Form::Json | Form::Jsonl => {
                told_as(serde_json::to_string(&told).map(|it| escaped(&it)))
            }
            Form::Yaml => told_as(serde_saphyr::to_string(&told)),
            Form::Table | Form::Wide | Form::Name => complain(&self.to_string()),
        }
    }
}

/// A failure for programs.
#[derive(Serialize)]
struct Told<'a> {
    error: &'a str,
    cure: Option<&'a str>,
    exit_code: u8,
}

fn told_as<E>(text: std::result::Result<String, E>) {
    // Texts and a number can be written in each form.
    notice(text.unwrap_or_default().trim_end());
}

impl Code {
    pub fn exit(self) -> ExitCode {
        ExitCode::from(self as u8)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.cure {
            Some(cure) => write!(f, "\n  cure: {cure}"),
            None => Ok(()),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure::new(Code::System, error.to_string())
            .cure("see that the output can be written, and which limits this machine sets")
    }
}

const CREDENTIALS: &str = "run `gcloud auth application-default login`, or set \
     GOOGLE_APPLICATION_CREDENTIALS to a key file; for an emulator set SPANNER_EMULATOR_HOST";

/// The cure of a table that locks can't live on: it is missing, another one, or has a wrong column.
pub const SCHEMA: &str = "name the lock table by -t; if it is this one, `spindle init` makes it and adds \
     the columns that it lacks; a column that is there takes the ALTER that is named, by `gcloud spanner databases \
     ddl update`";

const ROLE: &str = "grant these credentials roles/spanner.databaseUser on the database \
     (roles/spanner.databaseReader is enough to look), by `gcloud spanner databases \
     add-iam-policy-binding DATABASE --instance=INSTANCE --member=… --role=…`";

const SLOW: &str = "the connection was made, and then no answer came in time: `spindle doctor` measures how \
     slow Spanner is";

const ANSWERED: &str = "the connection works, and this is Spanner's answer: see its quotas, its load and its status \
     page";

impl From<spindle::Error> for Failure {
    fn from(error: spindle::Error) -> Failure {
        let text = error.to_string();
        if error.is_schema() {
            return Failure::new(Code::Missing, text).cure(SCHEMA);
        }
        if error.is_not_vacant() {
            return Failure::new(Code::No, text).cure(
                "wait until nobody holds it and it is not reserved: `spindle show` says when; \
                 `spindle evict` ends a term, `spindle seize` also a reservation",
            );
        }
        if error.is_other_term() {
            return Failure::new(Code::No, text)
                .cure("look with `spindle show`, and repeat it if that term is to end, too");
        }
        if spindle_fleet::is_other_count(&error) {
            return Failure::new(Code::No, text)
                .cure("`spindle shards GROUP/NAME` shows the count, and a move that goes on");
        }
        if error.is_config() {
            return Failure::new(Code::Usage, text)
                .cure("`spindle help` has the rules of the command line, `spindle ls` the names");
        }
        if error.is_outcome_unknown() {
            return Failure::new(Code::Unknown, text)
                .cure("look with `spindle show` before you repeat it");
        }
        match error.spanner() {
            Some(source) if !is_late(source) => refused(text, source),
            None if error.is_session_lost() || !error.is_retryable() => unreachable(text, false),
            // Every command has connected before it asks.
            _ => Failure::new(Code::Unreachable, text).cure(SLOW),
        }
    }
}

/// Returns true if the time was up: the client or the server noticed first.
fn is_late(error: &spindle::google_cloud_spanner::Error) -> bool {
    let code = error.status().map(|status| status.code);
    error.is_timeout() || code == Some(google_cloud_gax::error::rpc::Code::DeadlineExceeded)
}

/// The failure of a request, by what the client says of it.
pub fn refused(text: String, error: &spindle::google_cloud_spanner::Error) -> Failure {
    use google_cloud_gax::error::rpc::Code as Status;
    let cure = match error.status().map(|status| status.code) {
        Some(Status::PermissionDenied) => {
            return Failure::new(Code::Denied, text).cure(ROLE);
        }
        Some(Status::Unauthenticated) => CREDENTIALS,
        _ if spindle::is_answer(error) => ANSWERED,
        _ => return unreachable(text, error.is_authentication()),
    };
    Failure::new(Code::Unreachable, text).cure(cure)
}

/// Why no answer came, by what the client says.
pub fn unreachable(text: String, is_credentials: bool) -> Failure {
    let cure = if is_credentials { CREDENTIALS.to_string() } else { place() };
    Failure::new(Code::Unreachable, text).cure(cure)
}

fn place() -> String {
    match emulator() {
        Some(host) => {
            format!("see that something listens on SPANNER_EMULATOR_HOST, which is {host}")
        }
        None => {
            format!("see that this machine reaches spanner.googleapis.com:443; or {CREDENTIALS}")
        }
    }
}
