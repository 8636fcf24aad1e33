//! A real Chromium, driven over two pipes, and a record of everything that a page makes it do.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use command_fds::{CommandFdExt, FdMapping};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Longer than a browser takes for anything, even on a busy machine.
const LONGEST_WAIT: Duration = Duration::from_secs(120);

const PROGRAMS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Flags that keep the browser from doing anything except showing the page.
const FLAGS: [&str; 13] = [
    "--headless",
    // Chromium's own sandbox works neither for root nor in a container.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--remote-debugging-pipe",
];

pub(crate) struct Browser {
    process: Child,
    requests: std::fs::File,
    answers: Receiver<Value>,
    n_requests: u64,
    session: Option<String>,
    seen: Seen,
    _profile: TempDir,
}

/// Everything that a page did besides appearing.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) dialogs: Vec<String>,
    /// All requests except the one for the page itself, allowed or not.
    pub(crate) requests: Vec<String>,
    /// Errors, warnings, violations of the page's policy, and all console output.
    pub(crate) complaints: Vec<String>,
}

/// Finds the browser, or prints that there is none. With `REQUIRE_BROWSER=1` a missing browser is a failure.
#[expect(clippy::disallowed_methods, reason = "one of the suite's few switches")]
pub(crate) fn browser() -> Option<Browser> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = PROGRAMS.iter().find_map(|name| {
        std::env::split_paths(&path)
            .map(|directory| directory.join(name))
            .find(|file| file.is_file())
    });
    if program.is_none() {
        let is_required = std::env::var_os("REQUIRE_BROWSER").is_some_and(|value| value == "1");
        let hint = "install one: sudo apt-get install --yes --no-install-recommends chromium";
        assert!(!is_required, "found no browser; {hint}");
        eprintln!("found no browser, so nothing was tested; {hint}");
    }
    program.map(|program| Browser::start(&program))
}

impl Browser {
    fn start(program: &Path) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let (their_requests, our_requests) = std::io::pipe().unwrap();
        let (our_answers, their_answers) = std::io::pipe().unwrap();
        let mut command = Command::new(program);
        command
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .env("HOME", profile.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
            .fd_mappings(vec![
                FdMapping { parent_fd: their_requests.into(), child_fd: 3 },
                FdMapping { parent_fd: their_answers.into(), child_fd: 4 },
            ])
            .unwrap();
        let process = command.spawn().unwrap();
        // Close our copies of the browser's pipe ends, or the test would not notice its death.
        drop(command);
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            let mut reader = BufReader::new(our_answers);
            loop {
                let mut message = Vec::new();
                if reader.read_until(0, &mut message).unwrap_or(0) == 0 {
                    return;
                }
                message.pop();
                let message = serde_json::from_slice(&message).expect("the browser speaks JSON");
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let mut browser = Self {
            process,
            requests: std::fs::File::from(OwnedFd::from(our_requests)),
            answers,
            n_requests: 0,
            session: None,
            seen: Seen::default(),
            _profile: profile,
        };
        browser.open_tab();
        browser
    }

    fn open_tab(&mut self) {
        let target = self.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = self.call("Target.attachToTarget", attach);
        self.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log", "Network", "Audits"] {
            self.call(&format!("{domain}.enable"), json!({}));
        }
        self.call("Page.setLifecycleEventsEnabled", json!({"enabled": true}));
    }

    /// Opens a file, waits until the page and its network are idle, and returns what the page did.
    pub(crate) fn open(&mut self, page: &Path) -> Seen {
        let url = url_of(page);
        self.seen = Seen::default();
        self.call("Page.navigate", json!({"url": url}));
        loop {
            let event = self.next_event();
            let is_rest = event["method"] == "Page.lifecycleEvent"
                && event["params"]["name"] == "networkIdle";
            if is_rest && self.evaluate("location.protocol") == "file:" {
                break;
            }
        }
        // After two frames, any waiting script has run.
        self.evaluate(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))",
        );
        self.seen.requests.retain(|request| *request != url);
        self.seen.clone()
    }

    /// Returns the value of an expression on the page, and awaits promises. The page's policy does not apply here.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({
            "expression": expression,
            "returnByValue": true,
            "awaitPromise": true,
            // The browser treats the click as a user's.
            "userGesture": true,
        });
        let answer = self.call("Runtime.evaluate", params);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Returns everything seen since the page was opened.
    pub(crate) fn seen(&self) -> Seen {
        let mut seen = self.seen.clone();
        seen.requests.retain(|request| !request.starts_with("file:"));
        seen
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        loop {
            let message = self.receive();
            if message["id"] == id {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].clone();
            }
            self.note(&message);
        }
    }

    fn send(&mut self, method: &str, params: Value) -> u64 {
        self.n_requests += 1;
        let mut request = json!({"id": self.n_requests, "method": method, "params": params});
        if let Some(session) = &self.session {
            request["sessionId"] = json!(session);
        }
        let mut bytes = serde_json::to_vec(&request).unwrap();
        bytes.push(0);
        self.requests.write_all(&bytes).expect("the browser is alive");
        self.n_requests
    }

    fn next_event(&mut self) -> Value {
        let message = self.receive();
        self.note(&message);
        message
    }

    fn receive(&self) -> Value {
        self.answers.recv_timeout(LONGEST_WAIT).expect("the browser answers")
    }

    fn note(&mut self, event: &Value) {
        let params = &event["params"];
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match event["method"].as_str().unwrap_or_default() {
            "Page.javascriptDialogOpening" => {
                self.seen.dialogs.push(text(&params["message"]));
                // The page waits for an answer that only this client can give.
                self.send("Page.handleJavaScriptDialog", json!({"accept": false}));
            }
            "Network.requestWillBeSent" => {
                self.seen.requests.push(text(&params["request"]["url"]));
            }
            "Runtime.exceptionThrown" => {
                self.seen.complaints.push(text(&params["exceptionDetails"]["text"]));
            }
            "Runtime.consoleAPICalled" => self.seen.complaints.push(text(&params["args"])),
            "Log.entryAdded" => self.seen.complaints.push(text(&params["entry"]["text"])),
            "Audits.issueAdded" => self.seen.complaints.push(text(&params["issue"])),
            _ => {}
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser ends its many processes itself. If it does not react, this kills it.
        self.requests.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0").ok();
        while self.answers.recv_timeout(Duration::from_secs(20)).is_ok() {}
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

fn url_of(page: &Path) -> String {
    let page: PathBuf = page.canonicalize().unwrap();
    format!("file://{}", page.to_str().unwrap())
}
