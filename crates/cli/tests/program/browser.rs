//! Chromium without a window, told what to do over its two pipes.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::world::TIME_LIMIT;

/// One page of a browser of its own.
pub struct Browser {
    _child: Child,
    commands: ChildStdin,
    messages: BufReader<ChildStdout>,
    session: Option<String>,
    last_id: u64,
    /// The page's complaints: refused content, failed requests, errors of its script.
    pub complaints: Vec<String>,
    profile: PathBuf,
}

impl Browser {
    /// Starts `chromium`, or what the variable `CHROMIUM` names.
    pub async fn start() -> Browser {
        let program = std::env::var("CHROMIUM").unwrap_or_else(|_| "chromium".to_string());
        static BROWSERS: AtomicU32 = AtomicU32::new(0);
        let number = BROWSERS.fetch_add(1, Ordering::Relaxed);
        let profile = format!("chromium-{}-{number}", std::process::id());
        let profile = Path::new(env!("CARGO_TARGET_TMPDIR")).join(profile);
        // It reads commands from the third stream and writes answers to the fourth.
        let script = "exec \"$0\" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
             --no-first-run --disable-background-networking --user-data-dir=\"$1\" \
             --remote-debugging-pipe about:blank 3<&0 4>&1 0</dev/null 1>/dev/null 2>/dev/null";
        let mut child = Command::new("sh")
            .args(["-c", script, &program])
            .arg(&profile)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (commands, messages) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut browser = Browser {
            _child: child,
            commands,
            messages: BufReader::new(messages),
            session: None,
            last_id: 0,
            complaints: Vec::new(),
            profile,
        };
        let target = browser.tell("Target.createTarget", json!({ "url": "about:blank" })).await;
        let asked = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.tell("Target.attachToTarget", asked).await;
        browser.session = Some(session["sessionId"].as_str().unwrap().to_string());
        for domain in ["Page.enable", "Runtime.enable", "Log.enable", "Accessibility.enable"] {
            browser.tell(domain, json!({})).await;
        }
        browser
    }

    /// Sends a command and waits for its answer.
    pub async fn tell(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let mut command = json!({ "id": self.last_id, "method": method, "params": params });
        if let Some(session) = &self.session {
            command["sessionId"] = session.as_str().into();
        }
        let mut bytes = command.to_string().into_bytes();
        bytes.push(0);
        self.commands.write_all(&bytes).await.unwrap();
        loop {
            let mut message = Vec::new();
            let reading = self.messages.read_until(0, &mut message);
            let read = timeout(TIME_LIMIT, reading).await.unwrap().unwrap();
            assert!(read > 0, "no answer to {method}: is Chromium installed?");
            message.pop();
            let message: Value = serde_json::from_slice(&message).unwrap();
            self.note(&message);
            if message["id"] == self.last_id {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
        }
    }

    pub async fn open(&mut self, url: &str) {
        self.tell("Page.navigate", json!({ "url": url })).await;
    }

    /// Returns the value of an expression of the page's script.
    pub async fn eval(&mut self, expression: &str) -> Value {
        let asked = json!({
            "expression": expression, "returnByValue": true, "awaitPromise": true, "userGesture": true
        });
        let answer = self.tell("Runtime.evaluate", asked).await;
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub async fn until(&mut self, expression: &str) {
        let began = tokio::time::Instant::now();
        while self.eval(&format!("Boolean({expression})")).await != Value::Bool(true) {
            if began.elapsed() > TIME_LIMIT {
                let body = self.eval("document.body.innerText").await;
                panic!("never so: {expression}\n{body}\n{:?}", self.complaints);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Presses and lets go of a key.
    pub async fn press(&mut self, key: &str, code: u32, text: &str) {
        let mut asked =
            json!({ "type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code });
        if !text.is_empty() {
            asked["text"] = text.into();
        }
        self.tell("Input.dispatchKeyEvent", asked.clone()).await;
        asked["type"] = "keyUp".into();
        self.tell("Input.dispatchKeyEvent", asked).await;
    }

    pub async fn resize(&mut self, width: u32, height: u32, mobile: bool) {
        let asked =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile });
        self.tell("Emulation.setDeviceMetricsOverride", asked).await;
    }

    /// `light` or `dark`.
    pub async fn scheme(&mut self, scheme: &str) {
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.tell("Emulation.setEmulatedMedia", json!({ "features": [feature] })).await;
    }

    pub async fn screenshot(&mut self, file: &Path) {
        let shot = self.tell("Page.captureScreenshot", json!({ "format": "png" })).await;
        let png = BASE64_STANDARD.decode(shot["data"].as_str().unwrap()).unwrap();
        std::fs::write(file, png).unwrap();
    }

    fn note(&mut self, message: &Value) {
        let params = &message["params"];
        match message["method"].as_str() {
            Some("Log.entryAdded") => self.complaints.push(params["entry"].to_string()),
            Some("Runtime.exceptionThrown") => self.complaints.push(params.to_string()),
            _ => {}
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The remains are in the target directory.
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}
