//! The embedded Spanner as a program: serves until Ctrl-C or SIGTERM.

mod arguments;

use std::io::{self, Write};
use std::process::ExitCode;

use arguments::Arguments;
use clap::Parser;
use spindle_emulator::Emulator;

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("spindle-emulator: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> Result<(), String> {
    let ddl = match &arguments.ddl {
        None => String::new(),
        Some(path) => std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?,
    };
    // Before anything can be connected to, so that no signal is missed.
    let ended = ended().map_err(|error| format!("cannot listen for signals: {error}"))?;
    let mut builder = Emulator::builder()
        .host(arguments.host)
        .port(arguments.port)
        .rest(arguments.rest())
        .version_retention(arguments.version_retention);
    if arguments.lenient_ddl {
        builder = builder.lenient_ddl();
    }
    if let Some(port) = arguments.control {
        builder = builder.control(port);
    }
    let emulator = builder.start().await.map_err(|error| cannot_listen(&error))?;
    for database in &arguments.databases {
        emulator
            .create_database(database, &ddl)
            .await
            .map_err(|error| format!("cannot create {database}: {}", error.message()))?;
    }
    let mut text = format!("export SPANNER_EMULATOR_HOST={}\n", emulator.address());
    for database in &arguments.databases {
        text.push_str(&format!("# serving {database}\n"));
    }
    text.push_str(&format!("# administration over REST on {}\n", emulator.rest_endpoint()));
    if let Some(control) = emulator.control_endpoint() {
        text.push_str(&format!("# control service on {control}\n"));
    }
    say(&text)?;
    ended.await;
    emulator.stop().await;
    Ok(())
}

fn cannot_listen(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("{error}; --port, --rest and --control choose others, 0 a free one")
        }
        _ => error.to_string(),
    }
}

fn say(text: &str) -> Result<(), String> {
    let mut out = io::stdout().lock();
    // A reader that has gone away, such as `head`, is no reason to complain.
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.to_string()),
        _ => Ok(()),
    }
}

/// Resolves when the program is to end.
fn ended() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}
