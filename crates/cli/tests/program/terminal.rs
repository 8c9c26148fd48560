//! The program in a terminal: it draws, asks, and leaves the terminal as it was.

use std::io::{Read as _, Write as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::signal::Signal;
use portable_pty::{Child, CommandBuilder, PtySize, native_pty_system};

use crate::big_table;
use crate::world::{DATABASE, PROGRAM, World, stall_a_poll, takes_less_than, until};

const LEASE: Duration = Duration::from_secs(30);

/// A terminal, and the program in it.
pub struct Terminal {
    screen: Arc<Mutex<vt100::Parser>>,
    keyboard: Box<dyn std::io::Write + Send>,
    child: Box<dyn Child + Send + Sync>,
}

impl Terminal {
    fn start(world: &World, columns: u16, arguments: &[&str]) -> Terminal {
        Terminal::with(world, columns, PROGRAM, arguments)
    }

    /// Starts this program, which may start ours.
    pub fn with(world: &World, columns: u16, program: &str, arguments: &[&str]) -> Terminal {
        let size = PtySize { rows: 24, cols: columns, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(program);
        command.args(arguments);
        command.env("TERM", "xterm-256color");
        command.env_remove("NO_COLOR");
        command.env("SPANNER_EMULATOR_HOST", world.emulator.address().to_string());
        command.env("SPINDLE_DATABASE", DATABASE);
        let child = pair.slave.spawn_command(command).unwrap();
        let mut reader = pair.master.try_clone_reader().unwrap();
        let keyboard = pair.master.take_writer().unwrap();
        let screen = Arc::new(Mutex::new(vt100::Parser::new(24, columns, 0)));
        let shown = Arc::clone(&screen);
        std::thread::spawn(move || {
            let _master = pair.master;
            let mut bytes = [0; 4096];
            // The end of the program is an error here.
            while let Ok(read @ 1..) = reader.read(&mut bytes) {
                shown.lock().unwrap().process(&bytes[..read]);
            }
        });
        Terminal { screen, keyboard, child }
    }

    pub fn contents(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    pub async fn shows(&self, text: &str) {
        until(text, async || self.contents().contains(text)).await;
    }

    pub fn types(&mut self, text: impl AsRef<[u8]>) {
        self.keyboard.write_all(text.as_ref()).unwrap();
        self.keyboard.flush().unwrap();
    }

    async fn ends(&mut self) -> u32 {
        let mut code = None;
        until("the program ends", async || {
            code = self.child.try_wait().unwrap().map(|status| status.exit_code());
            code.is_some()
        })
        .await;
        code.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_draws_who_holds_and_follows_it_until_q() {
    let world = World::start().await;
    let held = world.hold("billing", "node-1", LEASE).await;
    let mut terminal = Terminal::start(&world, 120, &["watch", "--interval", "100ms"]);
    terminal.shows("1 of 1 held").await;
    terminal.shows("node-1").await;
    terminal.shows("next contender: waits until no heartbeat").await;
    assert!(terminal.screen.lock().unwrap().screen().alternate_screen());
    let _mail = world.hold("mail", "node-2", LEASE).await;
    terminal.shows("2 of 2 held").await;
    held.release().await;
    terminal.shows("1 of 2 held").await;
    terminal.types("q");
    assert_eq!(terminal.ends().await, 0);
    until("the terminal is as it was", async || {
        !terminal.screen.lock().unwrap().screen().alternate_screen()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_that_a_signal_ends_leaves_the_terminal_as_it_was() {
    let world = World::start().await;
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let mut terminal = Terminal::start(&world, 120, &["watch"]);
        terminal.shows("0 of 0 held").await;
        assert!(terminal.screen.lock().unwrap().screen().alternate_screen());
        let pid = terminal.child.process_id().unwrap().cast_signed();
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).unwrap();
        assert_eq!(terminal.ends().await, code);
        until("the terminal is as it was", async || {
            !terminal.screen.lock().unwrap().screen().alternate_screen()
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_act_is_done_once_somebody_types_y_and_not_otherwise() {
    let world = World::start().await;
    let held = world.hold("billing", "node-1", LEASE).await;
    let mut terminal = Terminal::start(&world, 200, &["evict", "billing"]);
    terminal.shows("[y/N]").await;
    terminal.types("n\n");
    assert_eq!(terminal.ends().await, 6);
    held.lock.verify().await.unwrap();

    let mut terminal = Terminal::start(&world, 200, &["evict", "billing"]);
    terminal.shows("[y/N]").await;
    terminal.types(b"y\xff\n");
    assert_eq!(terminal.ends().await, 6, "no text");
    held.lock.verify().await.unwrap();

    let mut terminal = Terminal::start(&world, 200, &["evict", "billing"]);
    let token = held.lock.has_lock().unwrap();
    terminal.shows(&format!("End the term of `node-1` under token {token}?")).await;
    terminal.types("y\n");
    assert_eq!(terminal.ends().await, 0);
    assert!(held.lock.verify().await.unwrap_err().is_fenced());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_comes_between_the_question_and_the_answer_is_not_hit() {
    let world = World::start().await;
    let held = world.hold("billing", "node-1", LEASE).await;
    let mut terminal = Terminal::start(&world, 200, &["seize", "billing"]);
    terminal.shows("[y/N]").await;
    held.release().await;
    let innocent = world.hold("billing", "node-2", LEASE).await;
    terminal.types("y\n");
    assert_eq!(terminal.ends().await, 1);
    let token = innocent.lock.verify().await.unwrap();
    terminal.shows(&format!("held by `node-2` under token {token}, not by `node-1`")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_narrow_terminal_gets_lines_that_fit() {
    let world = World::start().await;
    let name = "a-lock-with-a-name-that-is-much-longer-than-the-terminal-is-wide";
    let _held = world.hold(name, "node-1", LEASE).await;
    let mut terminal = Terminal::start(&world, 40, &["ls"]);
    assert_eq!(terminal.ends().await, 0);
    terminal.shows("LOCK").await;
    let contents = terminal.contents();
    assert_eq!(contents.trim().lines().count(), 2, "{contents}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_columns_keep_the_ends_of_names_and_what_became_of_each() {
    let world = World::start().await;
    let name = "billing/eu-west-1/customers/customer-4711";
    let held = world.hold(name, "payments-7d9f8b6c5d-x2x9k", LEASE).await;
    let mut terminal = Terminal::start(&world, 60, &["ls"]);
    assert_eq!(terminal.ends().await, 0);
    terminal.shows("customer-4711").await;
    for part in ["LOCK", "HOLDER", "d-x2x9k", "held"] {
        terminal.shows(part).await;
    }
    held.release().await;
    let mut terminal = Terminal::start(&world, 60, &["history", name]);
    assert_eq!(terminal.ends().await, 0);
    for part in ["BEGIN", "HOLDER", "END", "d-x2x9k", "released"] {
        terminal.shows(part).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_under_a_lock_has_the_terminal() {
    let world = World::start().await;
    let script = "read line; echo got $line";
    let mut terminal = Terminal::start(&world, 80, &["run", "job", "--", "sh", "-c", script]);
    until("the lock is held", async || world.table.inspect("job").await.unwrap().is_held()).await;
    terminal.types("hello\n");
    terminal.shows("got hello").await;
    assert_eq!(terminal.ends().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ctrl_z_suspends_the_command_and_the_lock_stays_held() {
    let world = World::start().await;
    let script = "echo process $$.; read line; echo got $line";
    let run = ["run", "job", "--lease", "10s", "--", "sh", "-c", script];
    let mut terminal = Terminal::start(&world, 80, &run);
    terminal.shows(".").await;
    let contents = terminal.contents();
    let (_, rest) = contents.split_once("process ").unwrap();
    let pid: i32 = rest.split_once('.').unwrap().0.parse().unwrap();
    let is_stopped =
        || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") T ");
    let held = async || {
        let state = world.table.inspect("job").await.unwrap();
        state.is_held().then_some(state.token)
    };
    let before = held().await;
    terminal.types("\x1a");
    until("the command is suspended", async || is_stopped()).await;
    assert!(before.is_some());
    // Its lease is over, unless a heartbeat comes.
    world.emulator.advance(Duration::from_secs(10));
    until("it is renewed meanwhile", async || held().await == before).await;
    assert!(is_stopped());
    let group = nix::unistd::Pid::from_raw(pid);
    nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGCONT).unwrap();
    terminal.types("hello\n");
    terminal.shows("got hello").await;
    assert_eq!(terminal.ends().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn q_is_answered_while_a_poll_is_under_way() {
    let world = World::start().await;
    world.write(&[("billing", Some("node-1"))]).await;
    // As long as the poll may take.
    takes_less_than(Duration::from_secs(5), async || {
        world.emulator.clear_faults();
        let mut terminal = Terminal::start(&world, 40, &["watch", "--interval", "100ms"]);
        terminal.shows("billing  node-1  held").await;
        stall_a_poll(&world.emulator).await;
        terminal.types("q");
        assert_eq!(terminal.ends().await, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_names_fit_any_terminal() {
    let world = World::start().await;
    let now = world.emulator.clock().now();
    let rows: Vec<_> = big_table::odd_names()
        .iter()
        .map(|name| big_table::held_row(now, name, "node-1", None))
        .collect();
    world.apply(&rows).await;
    for columns in [20, 80] {
        let mut terminal = Terminal::start(&world, columns, &["ls"]);
        assert_eq!(terminal.ends().await, 0);
        terminal.shows("xxxx").await;
        let contents = terminal.contents();
        assert_eq!(contents.trim_end().lines().count(), rows.len() + 1, "{contents}");
    }
}
