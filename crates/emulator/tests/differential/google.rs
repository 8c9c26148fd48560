//! Google's emulator, as a process.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// It runs as long as this is kept.
pub struct Google {
    process: Child,
    /// Its address.
    pub endpoint: String,
}

impl Google {
    /// The program, if it is installed. `SPANNER_EMULATOR_PROGRAMS` names its folder.
    pub fn program() -> Option<PathBuf> {
        let folder =
            std::env::var_os("SPANNER_EMULATOR_PROGRAMS").map(PathBuf::from).or_else(|| {
                let info = ["info", "--format=value(installation.sdk_root)"];
                let root = Command::new("gcloud").args(info).output().ok()?.stdout;
                let root = PathBuf::from(String::from_utf8(root).ok()?.trim());
                Some(root.join("bin/cloud_spanner_emulator"))
            })?;
        let program = folder.join("emulator_main");
        program.is_file().then_some(program)
    }

    /// Starts it on a port that the system picks.
    pub fn start(program: &Path) -> Result<Google, String> {
        let mut process = Command::new(program)
            .args(["--host_port", "127.0.0.1:0"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let errors = process.stderr.take().ok_or("no output of Google's emulator")?;
        let mut google = Google { process, endpoint: String::new() };
        let mut lines = BufReader::new(errors).lines();
        for line in lines.by_ref() {
            let line = line.map_err(|error| error.to_string())?;
            if let Some((_, address)) = line.split_once("Server address: ") {
                google.endpoint = format!("http://{address}");
                // Its later lines would fill the pipe.
                std::thread::spawn(move || lines.for_each(drop));
                return Ok(google);
            }
        }
        Err("Google's emulator ended before it named its address".into())
    }
}

impl Drop for Google {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
