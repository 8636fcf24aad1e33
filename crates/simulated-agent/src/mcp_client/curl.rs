//! Makes an HTTP request with the machine's `curl`, which knows TLS, the proxy variables and the trusted authorities.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Take, Write as _};
use std::process::{ChildStderr, ChildStdout, Command, Stdio};
use std::time::Duration;

use super::protocol::{MAX_MESSAGE_BYTES, RequestError};
use crate::process::groups::{ProcessGroup, ProcessGroups, Role};

/// The agent's variables that `curl` inherits: proxies and trusted authorities.
const INHERITED: [&str; 10] = [
    "PATH",
    "HOME",
    "HTTPS_PROXY",
    "https_proxy",
    "http_proxy",
    "ALL_PROXY",
    "NO_PROXY",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];
/// The body comes through stdin, because a configuration line has a length limit. Everything else comes through a
/// separate pipe and not on the command line, which every process can read. `-q` skips the user's `.curlrc`.
const SCRIPT: &str = "exec curl -q --config /dev/fd/3 3<<END\n$CURL_CONFIGURATION\nEND\n";
const MAX_HEAD_BYTES: u64 = 64 * 1024;
const MAX_COMPLAINT_BYTES: u64 = 4 * 1024;
/// `curl`'s exit code for a timeout.
const TIMED_OUT: i32 = 28;
/// The shell's exit code if it does not find `curl`.
const NOT_FOUND: i32 = 127;

#[derive(Debug)]
pub(super) struct Curl {
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) processes: ProcessGroups,
}

#[derive(Debug)]
pub(super) struct HttpRequest<'a> {
    pub(super) method: &'a str,
    pub(super) url: &'a str,
    pub(super) headers: &'a [(&'a str, &'a str)],
    pub(super) body: Option<&'a str>,
    pub(super) limit: Duration,
}

/// A request in progress. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Exchange {
    group: ProcessGroup,
    answer: Take<BufReader<ChildStdout>>,
    complaint: Option<ChildStderr>,
}

/// Status and headers of an answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    headers: Vec<(String, String)>,
}

impl Curl {
    pub(super) fn new(env: &[(OsString, OsString)], processes: &ProcessGroups) -> Self {
        let is_inherited =
            |(name, _): &&(OsString, OsString)| INHERITED.iter().any(|it| name == it);
        Self {
            env: env.iter().filter(is_inherited).cloned().collect(),
            processes: processes.clone(),
        }
    }

    pub(super) fn send(&self, request: &HttpRequest<'_>) -> Result<Exchange, RequestError> {
        if request.limit.is_zero() {
            return Err(RequestError::TimedOut);
        }
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", SCRIPT])
            .env_clear()
            .envs(self.env.iter().cloned())
            .env("CURL_CONFIGURATION", configuration(request)?)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut group = self.processes.start(&mut command, Role::Server)?;
        let stdin = group.child.stdin.take();
        if let (Some(mut stdin), Some(body)) = (stdin, request.body) {
            // If `curl` does not read, it has ended, and its exit code says why.
            stdin.write_all(body.as_bytes()).ok();
        }
        let stdout = group.child.stdout.take().ok_or(RequestError::Closed)?;
        let answer = BufReader::new(stdout).take(MAX_HEAD_BYTES);
        let complaint = group.child.stderr.take();
        Ok(Exchange { group, answer, complaint })
    }
}

impl Exchange {
    /// Waits for the head of the answer. The body follows.
    pub(super) fn head(mut self) -> Result<(Head, Self), RequestError> {
        loop {
            let mut text = Vec::new();
            while !text.ends_with(b"\r\n\r\n") {
                if self.answer.read_until(b'\n', &mut text).unwrap_or(0) == 0 {
                    return Err(match self.answer.limit() {
                        0 => RequestError::NotMcp("its headers have no end".to_owned()),
                        _ => self.failure(),
                    });
                }
            }
            let head = Head::parse(&String::from_utf8_lossy(&text));
            let head = head.ok_or_else(|| RequestError::NotMcp("it is not HTTP".to_owned()))?;
            // An interim response only announces another response.
            if head.status >= 200 {
                self.answer.set_limit(MAX_MESSAGE_BYTES);
                return Ok((head, self));
            }
        }
    }

    /// Returns the next bytes of the body, or none at its end.
    pub(super) fn more(&mut self) -> Result<Vec<u8>, RequestError> {
        let bytes = self.answer.fill_buf().unwrap_or_default().to_vec();
        self.answer.consume(bytes.len());
        if bytes.is_empty() && self.answer.limit() == 0 {
            let size = MAX_MESSAGE_BYTES / 1024 / 1024;
            return Err(RequestError::NotMcp(format!("it is larger than {size} MiB")));
        }
        Ok(bytes)
    }

    /// Waits until the response has ended. A truncated response is an error.
    pub(super) fn finish(self) -> Result<(), RequestError> {
        match self.exit_code() {
            Some(0) => Ok(()),
            Some(TIMED_OUT) => Err(RequestError::TimedOut),
            _ => Err(RequestError::Closed),
        }
    }

    /// Explains why there is no response.
    fn failure(mut self) -> RequestError {
        let mut complaint = Vec::new();
        if let Some(pipe) = &mut self.complaint {
            pipe.take(MAX_COMPLAINT_BYTES).read_to_end(&mut complaint).ok();
        }
        let complaint = String::from_utf8_lossy(&complaint);
        match self.exit_code() {
            Some(TIMED_OUT) => RequestError::TimedOut,
            Some(NOT_FOUND) => RequestError::Unreachable("`curl` is not installed".to_owned()),
            _ => RequestError::Unreachable(
                complaint.lines().next().unwrap_or("no answer").to_owned(),
            ),
        }
    }

    fn exit_code(self) -> Option<i32> {
        self.group.wait(|| {}).ok()?.code()
    }
}

impl Head {
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let status = lines.next()?.strip_prefix("HTTP/")?.split(' ').nth(1)?.parse().ok()?;
        let headers = lines.filter_map(|line| line.split_once(':'));
        let headers =
            headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()));
        Some(Self { status, headers: headers.collect() })
    }

    /// Returns the value of a header. `name` is in lower case.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(held, _)| held == name).map(|(_, value)| value.as_str())
    }
}

/// Writes the request as a `curl` configuration file.
fn configuration(request: &HttpRequest<'_>) -> io::Result<String> {
    let mut text =
        "silent\nshow-error\ngloboff\nno-buffer\ninclude\nsuppress-connect-headers\nhttp1.1\n\
                    proto = \"=http,https\"\nheader = \"Expect:\"\n"
            .to_owned();
    let mut set = |option: &str, value: &str| writeln!(text, "{option} = {}", quoted(value)).ok();
    set("max-time", &format!("{:.3}", request.limit.as_secs_f64().max(0.001)));
    set("user-agent", concat!("simulated-agent/", env!("CARGO_PKG_VERSION")));
    set("request", request.method);
    set("url", checked("url", request.url)?);
    for (name, value) in request.headers {
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        if name.is_empty() || !name.chars().all(is_letter) {
            return Err(unsendable("headers"));
        }
        match checked("headers", value)?.trim() {
            // `curl` would leave out a header without a value.
            "" => set("header", &format!("{name};")),
            value => set("header", &format!("{name}: {value}")),
        };
    }
    if request.body.is_some() {
        set("data-binary", "@-");
    }
    Ok(text)
}

fn checked<'a>(field: &str, value: &'a str) -> io::Result<&'a str> {
    if value.chars().any(char::is_control) { Err(unsendable(field)) } else { Ok(value) }
}

fn unsendable(field: &str) -> io::Error {
    let text = format!("its `{field}` has characters that cannot be sent");
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

/// Quotes a value for a `curl` configuration. [`checked`] has refused line breaks.
fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
#[path = "curl_tests.rs"]
mod tests;
