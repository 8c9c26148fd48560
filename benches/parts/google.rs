//! Google's own Spanner emulator, as a part of a benchmark.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use spindle::LockTable;
use tokio::time::Instant;

use crate::parts::Failure;

/// A program's name beside which its other half lies.
const GATEWAY: &str = "gateway_main";
/// How long it may take to start.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// A server with one database, which ends with this.
pub struct Google {
    gateway: Child,
    pub endpoint: String,
}

impl Google {
    /// Starts the programs that `SPANNER_EMULATOR_PROGRAMS` names a folder of, or else those of
    /// the Google Cloud SDK on this machine.
    pub fn start(database: &str) -> Result<Google, Failure> {
        let (grpc, http) = (free_port()?, free_port()?);
        let gateway = Command::new(format!("{}/{GATEWAY}", programs()?))
            .args(["--hostname", "127.0.0.1", "--grpc_port", &grpc.to_string()])
            .args(["--http_port", &http.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let google = Google { gateway, endpoint: format!("http://127.0.0.1:{grpc}") };
        let [_, project, _, instance, _, name] = database.split('/').collect::<Vec<_>>()[..] else {
            return Err(format!("{database} is no name of a database").into());
        };
        let instances = format!("/v1/projects/{project}/instances");
        let made = format!(
            "{{\"instanceId\": \"{instance}\", \"instance\": {{\"name\": \"projects/{project}/instances/{instance}\", \
             \"config\": \"projects/{project}/instanceConfigs/emulator-config\", \"displayName\": \"{instance}\", \
             \"nodeCount\": 1}}}}"
        );
        let start = Instant::now();
        while let Err(error) = post(http, &instances, &made) {
            if start.elapsed() > TIME_LIMIT {
                return Err(error);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let made = format!(
            "{{\"createStatement\": \"CREATE DATABASE `{name}`\", \"extraStatements\": [{:?}]}}",
            statement()
        );
        post(http, &format!("{instances}/{instance}/databases"), &made)?;
        Ok(google)
    }
}

impl Drop for Google {
    fn drop(&mut self) {
        // The other half is a process of its own. Both may have ended by themselves.
        let group = rustix::process::Pid::from_child(&self.gateway);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::TERM);
        let _ = self.gateway.wait();
    }
}

/// The statement that makes the table, as one line.
fn statement() -> String {
    let lines = LockTable::DDL.lines().filter(|line| !line.starts_with("--"));
    lines.collect::<Vec<_>>().join(" ").trim().trim_end_matches(';').to_string()
}

fn programs() -> Result<String, Failure> {
    if let Ok(folder) = std::env::var("SPANNER_EMULATOR_PROGRAMS") {
        return Ok(folder);
    }
    let sdk = ["info", "--format=value(installation.sdk_root)"];
    let sdk = Command::new("gcloud").args(sdk).output()?;
    let root = String::from_utf8(sdk.stdout)?;
    Ok(format!("{}/bin/cloud_spanner_emulator", root.trim()))
}

fn free_port() -> Result<u16, Failure> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn post(port: u16, path: &str, body: &str) -> Result<(), Failure> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    match answer.split(' ').nth(1) {
        Some("200") => Ok(()),
        _ => Err(format!("POST {path}: {answer}").into()),
    }
}
