//! The command line.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::record::State;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

const AFTER_HELP: &str = "\
Environment:
  SPINDLE_DATABASE                Names the database, as --database does
  SPINDLE_TABLE                   Names the table, as --table does
  SPINDLE_ID                      Names this process in the rows of the locks that it holds
  SPANNER_EMULATOR_HOST           Sends every request to that HOST:PORT instead of Cloud Spanner
  GOOGLE_APPLICATION_CREDENTIALS  Names a file of credentials for Cloud Spanner
  NO_COLOR                        Turns colour off
  RUST_LOG                        Chooses what `run` and `agent` log, for example spindle=info

Exit codes:
  0    The command did what it says
  1    The answer is no: no row has this name, nobody holds the lock, or `doctor` found something
  2    The command line can't work
  3    Spanner can't be reached, or takes none of these credentials: `serve` and `agent` wait instead;
       or --timeout is over
  4    The table or a column is missing, or is not as it should be
  5    No answer came, so nobody knows whether the change was made; look before you repeat it
  6    Nobody confirmed the change, so nothing was done
  7    There is no such database or instance
  8    The credentials lack a permission
  9    The output can't be written, or the system fails the program; look before you repeat a change
  141  Nobody reads the output any more, as behind `| head`
  `spindle run` has codes of its own: see `spindle run --help`";

const RUN_HELP: &str = "\
The command's environment has SPINDLE_TOKEN, the fencing token, and SPINDLE_LOCK, the lock's name.
It runs in a process group of its own. Once the lock is lost, the group gets SIGTERM at once and SIGKILL
shortly before the lease ends. If Spanner or the credentials aren't there yet, `spindle` waits for
them as for the lock: for --wait, not at all with --try.

With --slot or --every, each slot is run once in the whole fleet, however late a node's schedule is. A
failure leaves the slot to this node and others after a pause, and so does a node that dies, once its
lease is over. A node that waits heals that. An older slot than the last one that was started is skipped.

A background process that the command leaves behind lives on after the lock is released: then another
node may run the same. End it in the command, or pass --end-group. What moves to a process group or
session of its own (`setsid`, a daemon) is out of reach of both.

Signals to `spindle`, once the command runs:
  HUP, INT, QUIT, TERM, USR1, USR2     The group gets it, and the lock is released once the command
  ABRT, ALRM, IO, PROF, PWR, STKFLT,   has ended. The same holds for every other signal that ends a
  SYS, TRAP, VTALRM, XCPU, XFSZ        program by default, but for those below
  RTMIN to RTMAX                       The same, and the group gets TERM instead
  KILL, and faults of its own (SEGV,   End `spindle`. On Linux the kernel kills the command, too. The
  BUS, ILL, FPE)                       lock is not released, and its lease runs out
  STOP                                 Suspends `spindle` alone: see below

A signal before the command is started ends `spindle` with 128 + N, but for USR1 and USR2. Before it
exits, it resolves an attempt that is under way and releases the lock, within 15 s. Signals that are
ignored at the start, as under `nohup`, stay ignored by both.

If `spindle` is killed, the kernel kills the command's own process alone. What the command has started
goes on, and so does a command that changes its user (`sudo`, `su`): let a script `exec` its last
program. If `spindle` is suspended (SIGSTOP), all of the command goes on. Another node may take the
lock then, and only the token stops the writes: send it along with every write, and have whoever
stores the data refuse a token smaller than the greatest it has seen.

Under systemd say `KillMode=mixed`: by default systemd sends SIGTERM to the command as well, which
then gets it twice. As pid 1 of a container, `spindle` reaps the orphans that come to it.

Ctrl-Z suspends the command and not `spindle`, which goes on holding the lock: nobody else gets it
until the command has ended. `kill -CONT -- -$PID`, with the command's process id and from another
terminal, resumes it.

Exit codes:
  N        The command's own, if it ended by itself; 128 + N if signal N killed it
  75       The lock was not to be had: --try found it held, or --wait is over; the command was not
           started. The same if Spanner can't be reached for so long
  122      The slot is recorded as failed: all its attempts failed, the last one elsewhere. If the last
           one was here, the code is the command's own
  123      The command ended with 0, but the lock could not be released: others see it as held, for as
           long as the message says. It is tried until then, or until a signal. With a slot: nobody
           knows whether its end is recorded
  124      The lock was lost, or --at-most is over, so the command was stopped
  125      `spindle` failed before the command was started: at once for a missing table, column,
           database or instance, for a missing permission, and for --try without Spanner
  126      The command can't be started
  127      There is no such command
  0        With a slot: it ran here and is recorded as done, or it was skipped, which standard error
           says: it ran elsewhere, a later one was started, or --skip-if-running found it running";

const SERVE_HELP: &str = "\
  /         The page: who holds what now, and each lock's terms of up to an hour
  /metrics  For Prometheus, one series for each lock
  /healthz  200 if the last poll of the table succeeded, at most 10 s ago, otherwise 503 and why not

It may be started before Spanner, the credentials or the metadata server are there: it tries again at
least each second, and says once a minute what it waits for. It ends at once with 4, 7 or 8, as
`spindle --help` lists them, for what no wait cures.

It only reads: at most one poll of the table a second while somebody watches or scrapes, and at most
ten old versions of rows a second for the terms of the locks on somebody's screen. There is no
password: whoever reaches the address sees everything.";

const AGENT_HELP: &str = "\
  POST /v1/lead                      Contend for locks: a stream of `gained`, `renewed`, `lost`
  POST /v1/acquire                   Take a lock, and keep it by heartbeats
  POST /v1/run-once                  Run a slot of a job, unless it runs or ran elsewhere
  POST /v1/claims/CLAIM/heartbeat    Tell that the client works, and read the deadline
  POST /v1/claims/CLAIM/resign       Give the term up, and contend again
  DELETE /v1/claims/CLAIM            Let go, until the lease is over: the lock is released at once
  GET /v1/leader?lock=NAME           Tell who leads
  GET /healthz, /readyz, /metrics    Health, readiness, metrics for Prometheus

It may be started before Spanner, the credentials or the metadata server are there: it tries again at
least each second, and says once a minute what it waits for. Until then /readyz answers 503 with the
reason, and so do the requests for locks. It ends at once with 4, 7 or 8, as `spindle --help` lists
them, for what no wait cures: a missing table, column, database or instance, or a missing permission.

A client that is gone, or sends no heartbeat for a lease, may still work: its lock is not released, and its lease runs out.
docs/agent.md has programs in Go, Java, Node and Python.";

/// Shows who holds what on a Spindle lock table, since when, and why.
#[derive(Debug, Parser)]
#[command(name = "spindle", version, styles = STYLES, after_help = AFTER_HELP)]
#[command(arg_required_else_help = true, max_term_width = 100)]
pub struct Arguments {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub command: Command,
}

/// The options of every command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Common {
    /// Database, as projects/PROJECT/instances/INSTANCE/databases/DATABASE.
    #[arg(long, short, global = true, env = "SPINDLE_DATABASE", value_name = "DATABASE")]
    #[arg(hide_env_values = true)]
    pub database: Option<String>,
    /// Table of the locks.
    #[arg(long, short, global = true, env = "SPINDLE_TABLE", value_name = "TABLE")]
    #[arg(default_value = "locktable", hide_env_values = true)]
    pub table: String,
    /// Form of the output.
    #[arg(long, short, global = true, value_enum, default_value_t, value_name = "FORM")]
    pub output: Form,
    /// End with 3 if the command takes longer; `wait` with 1, as that is its answer. Whether a change was
    /// made isn't known then. Not for what runs until it is stopped.
    #[arg(long, global = true, value_parser = duration, value_name = "TIME")]
    pub timeout: Option<Duration>,
    /// Colour in the output.
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub color: Colour,
    /// Address of the database's administration over REST, which `init` needs. Without it an
    /// emulator's is SPANNER_EMULATOR_REST_HOST; or 9020 beside 9010; or on the same port.
    #[arg(long, global = true, value_name = "HOST:PORT", hide_short_help = true)]
    pub admin_endpoint: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// For people: a terminal gets the columns that it has room for.
    #[default]
    Table,
    /// The same, with more columns, and none cut.
    Wide,
    /// For programs; errors, too, on standard error.
    Json,
    /// One JSON object a line, for streams.
    Jsonl,
    Yaml,
    /// Names alone, one a line.
    Name,
}

impl Form {
    /// Returns the form that these words ask for, also where the rest of them can't be read.
    pub fn asked(words: impl IntoIterator<Item = OsString>) -> Form {
        let mut words = words.into_iter().skip(1).map_while(|word| word.into_string().ok());
        let mut form = Form::default();
        while let Some(word) = words.by_ref().next().filter(|word| word != "--") {
            let value = match word.split_once('=') {
                Some(("-o" | "--output", value)) => Some(value.to_string()),
                _ if word == "-o" || word == "--output" => words.next(),
                _ => word.strip_prefix("-o").map(str::to_string),
            };
            form = value.and_then(|value| Form::from_str(&value, false).ok()).unwrap_or(form);
        }
        form
    }

    /// True for objects, which errors are then, too.
    pub fn has_objects(self) -> bool {
        matches!(self, Form::Json | Form::Jsonl | Form::Yaml)
    }

    /// True for a table, and words: what a program reads says less.
    pub fn is_for_people(self) -> bool {
        matches!(self, Form::Table | Form::Wide)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    /// Where the output is a terminal, and NO_COLOR is not set.
    #[default]
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the locks, and who holds each.
    Ls(Ls),
    /// Show all there is to say of one lock.
    Show(Named),
    /// Print the id of the holder, and nothing else; exit with 1 if nobody holds.
    Who(Named),
    /// Wait until somebody holds a lock, or nobody does, or this one; exit with 1 after --timeout. Once it has looked,
    /// it goes on through an outage.
    Wait(Wait),
    /// Tell the terms of a lock so far, the latest first, from what Spanner still knows of its row.
    History(History),
    /// Follow who holds what, live; as plain lines if the output is no terminal.
    Watch(Watch),
    /// List the live members of a group, or of all groups.
    Members {
        /// Name of the group.
        group: Option<String>,
    },
    /// Tell which member has which shards, or move them to another count.
    Shards {
        /// Group and name of the shards; without it, all there are are listed.
        #[arg(value_name = "GROUP/NAME")]
        name: Option<String>,
        #[command(flatten)]
        resize: Resize,
    },
    /// Tell who has which permits of a semaphore, or list the semaphores.
    Permits {
        /// Name of the semaphore.
        name: Option<String>,
    },
    /// Tell who reads, who writes and who waits to write, or list the locks that are read and written.
    Readers {
        /// Name of the lock that is read and written.
        name: Option<String>,
    },
    /// List the jobs: their last slots, how these stand, by whom, and how long they took.
    Jobs,
    /// Look into one job, or forget its record.
    #[command(subcommand)]
    Job(JobCommand),
    /// Print the statements that make the table, or that bring an old one up to date.
    Ddl(Ddl),
    /// Make the table, or add the columns that an old one lacks.
    Init,
    /// Delete the row of a lock that nobody holds, and its takeover rows.
    Rm {
        #[command(flatten)]
        lock: Named,
        #[command(flatten)]
        confirmation: Confirmation,
    },
    /// End the holder's term gracefully: the next one begins once its lease has run out.
    Evict(Depose),
    /// Take the lock from its holder at once: for a lease, two may believe that they hold it.
    Seize(Depose),
    /// Take the lock from its holder at once, and give one contender first refusal for 10 s.
    ResignTo(ResignTo),
    /// Hold a lock, and run a command under it.
    #[command(after_help = RUN_HELP)]
    Run(Run),
    /// Look for what is wrong, or will be, and say how to cure it.
    Doctor,
    /// Serve metrics for Prometheus, a health check, and a web page of who holds what.
    Serve(Serve),
    /// Hold locks for services in other languages on this host, over HTTP.
    Agent(Agent),
    /// Start a database of its own with three contenders, and kill one now and then: to try all else on.
    #[cfg(feature = "demo")]
    Demo(Demo),
    /// Print the completions for a shell.
    Completions { shell: clap_complete::Shell },
    /// Print the manual page, or write one for each command into a directory.
    Man {
        /// Write `spindle.1`, `spindle-ls.1` and so on into this directory, and make it if need be.
        #[arg(long, value_name = "DIRECTORY")]
        into: Option<PathBuf>,
    },
    /// Print the names that the last of these words may become, for the shells' completions.
    #[command(hide = true)]
    CompleteName {
        /// Words of the command line so far, the program's name first.
        #[arg(last = true, required = true)]
        words: Vec<OsString>,
    },
    /// Become the command of a `run`, which dies with the process that started it.
    #[command(hide = true)]
    Become {
        parent: i32,
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Contend for the locks of the demonstration.
    #[cfg(feature = "demo")]
    #[command(hide = true)]
    Contend {
        id: String,
        #[arg(long, value_parser = duration)]
        lease: Duration,
    },
}

impl Command {
    /// True for what has no end of its own.
    pub fn runs_until_stopped(&self) -> bool {
        let is_ours = match self {
            #[cfg(feature = "demo")]
            Command::Demo(_) | Command::Contend { .. } => true,
            _ => false,
        };
        is_ours
            || matches!(
                self,
                Command::Watch(_)
                    | Command::Serve(_)
                    | Command::Agent(_)
                    | Command::Run(_)
                    | Command::Become { .. }
            )
    }
}

/// A lock.
#[derive(Debug, Args)]
pub struct Named {
    /// Name of the lock: `spindle ls` lists them. The row of a fleet goes by its whole name.
    pub name: String,
}

#[derive(Debug, Args)]
pub struct Ls {
    #[command(flatten)]
    pub listed: Listed,
    /// Those in this state alone; fleets count as their rows do.
    #[arg(long, value_enum, value_name = "STATE")]
    pub state: Option<State>,
    /// In the order of this; the rows of fleets one by one.
    #[arg(long, value_enum, value_name = "FIELD")]
    pub sort_by: Option<SortBy>,
}

/// The order of the lines of `ls`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SortBy {
    Name,
    Holder,
    State,
    /// The latest first.
    Since,
    /// The oldest heartbeat first.
    Heartbeat,
}

#[derive(Debug, Args)]
pub struct Wait {
    #[command(flatten)]
    pub lock: Named,
    /// `held`, `free` (nobody holds it, for whatever reason) or `holder=ID`.
    #[arg(long = "for", value_name = "WHAT", value_parser = awaited)]
    pub what: Awaited,
}

/// The state that `wait` waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Awaited {
    Held,
    Free,
    Holder(String),
}

/// The options of `ls` and of `watch`.
#[derive(Debug, Default, Args)]
pub struct Listed {
    /// Locks whose names begin so; all of them without it. `spindle:` shows the rows of fleets.
    #[arg(default_value = "")]
    pub prefix: String,
    /// Show each row of members, shards, permits and readers, and not one line for each fleet.
    /// JSON always has each row; its field `fleet` tells them from locks.
    #[arg(long, short)]
    pub all: bool,
}

#[derive(Debug, Args)]
pub struct Watch {
    #[command(flatten)]
    pub listed: Listed,
    /// From one poll to the next. After a poll that took long it waits nine times as long, but at
    /// most 10 s.
    #[arg(long, default_value = "1s", value_parser = duration, value_name = "TIME")]
    pub interval: Duration,
}

#[derive(Debug, Args)]
pub struct History {
    #[command(flatten)]
    pub lock: Named,
    /// How far back. Spanner keeps old versions for an hour unless the database says otherwise.
    #[arg(long, value_parser = duration, value_name = "TIME", default_value = "1h")]
    pub since: Duration,
    /// Draw it into this file, too.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum JobCommand {
    /// List the slots that the job's row tells, the latest first.
    Slots {
        /// Name of the job: `spindle jobs` lists them.
        name: String,
    },
    /// Forget the record of a job that doesn't run: any slot may be run again then. Its lock stays.
    Rm {
        /// Name of the job.
        name: String,
        #[command(flatten)]
        confirmation: Confirmation,
    },
}

#[derive(Debug, Args)]
pub struct Ddl {
    /// For a database of the PostgreSQL dialect.
    #[arg(long)]
    pub postgresql: bool,
    /// The statements that add the columns which the table of another implementation lacks.
    #[arg(long)]
    pub upgrade: bool,
}

#[derive(Debug, Args)]
pub struct Resize {
    /// Move the running fleet to so many shards: all of the old stop before any of the new starts.
    #[arg(long, value_name = "COUNT", requires = "name")]
    pub resize: Option<usize>,
    #[command(flatten)]
    pub confirmation: Confirmation,
}

#[derive(Debug, Args)]
pub struct Confirmation {
    /// Do it without asking.
    #[arg(long, short)]
    pub yes: bool,
}

#[derive(Debug, Args)]
pub struct Depose {
    #[command(flatten)]
    pub lock: Named,
    /// Why: `spindle show` prints it, and `spindle history` too.
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// The person or program that acts; the user's name at this host by default.
    #[arg(long, value_name = "WHO")]
    pub by: Option<String>,
    /// Do nothing unless this id holds the lock; by default whoever is seen before the confirmation.
    #[arg(long, value_name = "ID")]
    pub if_holder: Option<String>,
    /// Do nothing unless the lock has this token; by default the one that is seen.
    #[arg(long, value_name = "TOKEN")]
    pub if_token: Option<spindle::FencingToken>,
    #[command(flatten)]
    pub confirmation: Confirmation,
}

#[derive(Debug, Args)]
pub struct ResignTo {
    #[command(flatten)]
    pub depose: Depose,
    /// Id of the contender that may take the lock first.
    pub id: String,
}

#[derive(Debug, Args)]
pub struct Run {
    /// Name of the lock, or of the job with a slot.
    pub name: String,
    /// Give up at once if somebody else holds the lock.
    #[arg(long = "try", conflicts_with_all = ["wait", "job"])]
    pub try_only: bool,
    /// Wait at most this long for the lock, or for the slot to be recorded; without it, for as long as it
    /// takes.
    #[arg(long, value_parser = wait, value_name = "TIME")]
    pub wait: Option<Duration>,
    /// For a schedule on every node of a fleet: run the command once for this slot, on one of them. It is
    /// the time for which the run was scheduled, in RFC 3339, such as 2026-11-27T02:00:00Z.
    #[arg(long, value_parser = slot, value_name = "TIME", group = "job")]
    pub slot: Option<chrono::DateTime<chrono::Utc>>,
    /// As --slot, for a crontab: the slot is the multiple of this period since 1970 in UTC that is nearest
    /// to Spanner's time. For example `1h`.
    #[arg(long, value_parser = duration, value_name = "PERIOD", group = "job")]
    pub every: Option<Duration>,
    /// With a slot: start the command so many times at most, on all nodes together. Any exit code but 0 is
    /// a failure.
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    pub attempts: u32,
    /// With a slot: pause so long after the first failure; it doubles with each. 10 s by default.
    #[arg(long, value_parser = duration, value_name = "TIME", requires = "job")]
    pub retry_pause: Option<Duration>,
    /// With a slot: stop the command after this long, which is a failure.
    #[arg(long, value_parser = duration, value_name = "TIME", requires = "job")]
    pub at_most: Option<Duration>,
    /// With a slot: end at once if it runs on another node, instead of waiting until it is recorded.
    #[arg(long, requires = "job")]
    pub skip_if_running: bool,
    /// With a slot: the exit code where this call skips it, since it was run or runs elsewhere, or a later
    /// one was started.
    #[arg(long, requires = "job", value_name = "CODE", default_value_t = 0)]
    pub skipped_exit_code: u8,
    /// Once the command has ended, end what it left running in its process group: SIGTERM, after 5 s
    /// SIGKILL. The lock is held until then.
    #[arg(long)]
    pub end_group: bool,
    /// How long a heartbeat protects the lock; a crash holds it up for so long.
    #[arg(long, value_parser = duration, value_name = "TIME", default_value = "10s")]
    pub lease: Duration,
    /// Id in the table; of host, process and a random part by default.
    #[arg(long)]
    pub id: Option<String>,
    /// Text that the row shows of this holder; the command without its arguments by default.
    #[arg(long, value_name = "TEXT")]
    pub info: Option<String>,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

impl Run {
    /// Returns the slot that it is for, if it is for one.
    pub fn slot(&self) -> Option<spindle::job::Slot> {
        self.slot.map(Into::into).or(self.every.map(spindle::job::Slot::every))
    }
}

#[derive(Debug, Args)]
#[command(after_help = SERVE_HELP)]
pub struct Serve {
    /// Address and port; port 0 takes any that is free.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9464", value_parser = address)]
    pub listen: SocketAddr,
    /// Name by which browsers and scrapers may call it, besides addresses and `localhost`; once for
    /// each.
    #[arg(long, value_name = "NAME")]
    pub allow_host: Vec<String>,
    /// Locks with a label of their own in the metrics; the others share one.
    #[arg(long, value_name = "COUNT", default_value_t = 1_000)]
    pub metrics_locks: usize,
}

#[derive(Debug, Args)]
#[command(after_help = AGENT_HELP)]
pub struct Agent {
    /// Address and port of the loopback; port 0 takes any that is free.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9465", value_parser = address)]
    pub listen: SocketAddr,
    /// Listen on a Unix socket instead, which only this user opens (mode 0600).
    #[arg(long, value_name = "PATH", conflicts_with = "listen")]
    pub socket: Option<PathBuf>,
    /// With --socket: let this user use it, too, by number; once for each. Root always may. The socket has
    /// the mode 0666 then, and the kernel tells who connects.
    #[arg(long, value_name = "UID", requires = "socket")]
    pub allow_uid: Vec<u32>,
    /// With --socket: its mode, in octal; 0600 without --allow-uid, and 0666 with it.
    #[arg(long, value_name = "MODE", requires = "socket", value_parser = mode)]
    pub socket_mode: Option<u32>,
    /// With --socket: its group, by number.
    #[arg(long, value_name = "GID", requires = "socket")]
    pub socket_group: Option<u32>,
    /// File of a secret that each request must carry, as `Authorization: Bearer SECRET`.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Name by which clients may call it, besides addresses and `localhost`; once for each.
    #[arg(long, value_name = "NAME")]
    pub allow_host: Vec<String>,
    /// Answer /healthz, /readyz and /metrics at this address, too, and nothing else: for a kubelet
    /// and Prometheus, without a token.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub probes: Option<SocketAddr>,
    /// Locks that all clients together may claim.
    #[arg(long, value_name = "COUNT", default_value_t = 10_000)]
    pub locks_max: usize,
    /// Locks with a line of their own in the metrics.
    #[arg(long, value_name = "COUNT", default_value_t = 1_000)]
    pub metrics_locks: usize,
    /// How long clients may take to let go once this program is told to end.
    #[arg(long, value_parser = duration, value_name = "TIME", default_value = "5s")]
    pub grace: Duration,
    /// Contend for this lock, too, and tell its leader at `GET /`, as the former leader-elector
    /// sidecar did. The agent's life counts for it, not the service's.
    #[arg(long, value_name = "NAME")]
    pub elector: Option<String>,
    /// With --elector: the name by which the service knows itself; the host's by default.
    #[arg(long, requires = "elector")]
    pub id: Option<String>,
}

#[cfg(feature = "demo")]
#[derive(Debug, Args)]
pub struct Demo {
    /// End by itself after this long; without it, on Ctrl-C.
    #[arg(long = "for", value_parser = duration, value_name = "TIME")]
    pub limit: Option<Duration>,
    /// From one kill to the next, on the average.
    #[arg(long, value_parser = duration, value_name = "TIME", default_value = "20s")]
    pub kill_every: Duration,
    /// Port of the database; 9010 if it is free, or any other, without it.
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
}

fn mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| "expected a mode in octal, for example 0660".to_string())
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "expected an IP address and a port, for example 127.0.0.1:9464 or [::1]:9464".to_string()
    })
}

fn duration(text: &str) -> Result<Duration, String> {
    let said = |error| format!("{error}; write for example 500ms, 30s, 5m or 1h30m");
    humantime::parse_duration(text).map_err(said)
}

fn awaited(text: &str) -> Result<Awaited, String> {
    match text.split_once('=') {
        Some(("holder", id)) if !id.is_empty() => Ok(Awaited::Holder(id.to_string())),
        None if text == "held" => Ok(Awaited::Held),
        None if text == "free" => Ok(Awaited::Free),
        _ => Err("expected held, free or holder=ID".to_string()),
    }
}

fn wait(text: &str) -> Result<Duration, String> {
    let wait = duration(text)?;
    if wait > Duration::from_secs(365 * 24 * 60 * 60) {
        return Err("at most a year; without --wait it waits for as long as it takes".to_string());
    }
    Ok(wait)
}

/// Reads the time of a slot.
pub fn slot(text: &str) -> Result<chrono::DateTime<chrono::Utc>, String> {
    let said = |error| format!("{error}; write for example 2026-11-27T02:00:00Z");
    chrono::DateTime::parse_from_rfc3339(text).map(|it| it.to_utc()).map_err(said)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_form_is_known_of_a_line_that_cannot_be_read() {
        let asked = |line: &str| Form::asked(line.split(' ').map(OsString::from));
        for line in
            ["-o json ls", "ls --wrong -o json", "ls -ojson", "ls -o=json", "ls --output json"]
        {
            assert_eq!(asked(&format!("spindle {line}")), Form::Json, "{line}");
        }
        assert_eq!(asked("spindle ls --output=yaml --wrong"), Form::Yaml);
        for line in ["ls --wrong", "ls -o", "ls -o jsno", "run a -- cp -o json"] {
            assert_eq!(asked(&format!("spindle {line}")), Form::Table, "{line}");
        }
    }

    #[test]
    fn a_slot_is_a_time_of_any_zone() {
        assert_eq!(slot("2026-10-25T02:30:00+01:00"), slot("2026-10-25T01:30:00Z"));
        assert!(slot("02:30").unwrap_err().contains("2026-11-27T02:00:00Z"));
    }
}
