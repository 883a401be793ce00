//! A headless Chromium, driven over the `DevTools` protocol.
//!
//! The browser reads commands from file descriptor 3 and writes answers and events to 4, each terminated by a zero byte. So it
//! needs neither a port nor a WebSocket.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use anyhow::{Context, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The names of the program, in the order in which they are tried.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// How long an answer may take. A browser starts slowly when all processors are busy.
const PATIENCE: Duration = Duration::from_mins(3);

/// A browser with one page.
pub struct Browser {
    process: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    /// Events that arrived during the wait for an answer.
    events: VecDeque<Value>,
    session: Option<String>,
    sent: u64,
    _profile: TempDir,
}

impl Browser {
    /// Starts the browser on the path; returns `None` if there is none.
    pub fn start() -> anyhow::Result<Option<Self>> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = NAMES.iter().flat_map(|name| std::env::split_paths(&path).map(move |dir| dir.join(name)));
        found.into_iter().find(|program| program.is_file()).map(|program| Self::launch(&program)).transpose()
    }

    fn launch(program: &Path) -> anyhow::Result<Self> {
        let profile = tempfile::tempdir()?;
        let mut process = Command::new("sh")
            .args(["-c", r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null"#])
            .arg(program)
            .args(["--headless", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu"])
            // Tests run in containers, as root and with little shared memory; the page is our own.
            .args(["--no-sandbox", "--disable-dev-shm-usage", "--window-size=1200,800"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("{} does not start", program.display()))?;
        let commands = process.stdin.take().context("the browser has a pipe in")?;
        let mut answers = BufReader::new(process.stdout.take().context("the browser has a pipe out")?);
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while answers.read_until(0, &mut message).is_ok_and(|length| length > 0) {
                let read = serde_json::from_slice(message.strip_suffix(&[0]).unwrap_or(&message));
                if !read.is_ok_and(|value| sender.send(value).is_ok()) {
                    return;
                }
                message.clear();
            }
        });
        let events = VecDeque::new();
        let mut browser =
            Self { process, commands, messages, events, session: None, sent: 0, _profile: profile };
        let target = browser.call("Target.createTarget", &json!({"url": "about:blank"}))?;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", &attach)?;
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.call(domain, &json!({}))?;
        }
        Ok(browser)
    }

    /// Opens a file and waits until it is loaded.
    pub fn open(&mut self, file: &Path) -> anyhow::Result<()> {
        self.open_url(&format!("file://{}", file.display()))
    }

    /// Opens a URL and waits until it is loaded.
    pub fn open_url(&mut self, url: &str) -> anyhow::Result<()> {
        self.events.retain(|event| event["method"] != "Page.loadEventFired");
        let opened = self.call("Page.navigate", &json!({ "url": url }))?;
        if let Some(error) = opened.get("errorText") {
            bail!("{url} does not open: {error}");
        }
        let mut seen = VecDeque::new();
        loop {
            let event = match self.events.pop_front() {
                Some(event) => event,
                None => self.receive()?,
            };
            let loaded = event["method"] == "Page.loadEventFired";
            seen.push_back(event);
            if loaded {
                seen.append(&mut self.events);
                self.events = seen;
                return Ok(());
            }
        }
    }

    /// Returns the value of an expression on the page.
    pub fn evaluate(&mut self, expression: &str) -> anyhow::Result<Value> {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", &params)?;
        if let Some(exception) = answer.get("exceptionDetails") {
            bail!("{expression}: {exception}");
        }
        Ok(answer["result"]["value"].clone())
    }

    /// Waits until an expression on the page is true. It is evaluated at each change of the document.
    pub fn wait_for(&mut self, expression: &str) -> anyhow::Result<()> {
        let promise = format!(
            "new Promise((done) => {{
               const observer = new MutationObserver(() => check());
               const check = () => {{ if ({expression}) {{ observer.disconnect(); done(true); }} }};
               observer.observe(document, {{attributes: true, characterData: true, childList: true, subtree: true}});
               check();
             }})"
        );
        self.evaluate(&promise).with_context(|| format!("waiting for {expression}"))?;
        Ok(())
    }

    /// Sets the size of the window and the preferred colours.
    pub fn show_as(&mut self, width: u32, height: u32, dark: bool) -> anyhow::Result<()> {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", &size)?;
        let scheme = if dark { "dark" } else { "light" };
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", &media)?;
        Ok(())
    }

    /// Returns a picture of the window, as PNG.
    pub fn screenshot(&mut self) -> anyhow::Result<Vec<u8>> {
        let picture = self.call("Page.captureScreenshot", &json!({"captureBeyondViewport": false}))?;
        Ok(STANDARD.decode(picture["data"].as_str().context("the browser sends a picture")?)?)
    }

    /// Moves the mouse to a position in the window.
    pub fn point_at(&mut self, x: f64, y: f64) -> anyhow::Result<()> {
        self.call("Input.dispatchMouseEvent", &json!({"type": "mouseMoved", "x": x, "y": y}))?;
        Ok(())
    }

    /// Presses a key, such as `ArrowLeft`.
    pub fn press(&mut self, key: &str) -> anyhow::Result<()> {
        self.call("Input.dispatchKeyEvent", &json!({"type": "keyDown", "key": key}))?;
        self.call("Input.dispatchKeyEvent", &json!({"type": "keyUp", "key": key}))?;
        Ok(())
    }

    /// Types text into the focused element.
    pub fn type_in(&mut self, text: &str) -> anyhow::Result<()> {
        self.call("Input.insertText", &json!({"text": text}))?;
        Ok(())
    }

    /// Returns the exceptions, errors and warnings of the page so far.
    pub fn complaints(&mut self) -> anyhow::Result<Vec<Value>> {
        // The answer arrives after all earlier events.
        self.evaluate("0")?;
        let is_complaint = |event: &&Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown" | "Log.entryAdded") => true,
            Some("Runtime.consoleAPICalled") => {
                matches!(event["params"]["type"].as_str(), Some("error" | "warning" | "assert"))
            }
            _ => false,
        };
        Ok(self.events.iter().filter(is_complaint).cloned().collect())
    }

    fn call(&mut self, method: &str, params: &Value) -> anyhow::Result<Value> {
        self.sent += 1;
        let mut command = json!({"id": self.sent, "method": method, "params": params});
        if let Some(session) = &self.session {
            command["sessionId"] = json!(session);
        }
        self.commands.write_all(format!("{command}\0").as_bytes())?;
        self.commands.flush()?;
        loop {
            let mut message = self.receive().with_context(|| format!("no answer to {method}"))?;
            if message["id"] != self.sent {
                self.events.push_back(message);
            } else if let Some(error) = message.get("error") {
                bail!("{method}: {error}");
            } else {
                return Ok(message["result"].take());
            }
        }
    }

    fn receive(&mut self) -> anyhow::Result<Value> {
        self.messages.recv_timeout(PATIENCE).context("the browser is silent")
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
