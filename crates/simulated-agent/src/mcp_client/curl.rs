//! One HTTP request, made by the `curl` of the machine: it knows TLS, the proxy variables and the trusted authorities.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, PipeReader, Read, Take, Write as _};
use std::path::Path;
use std::time::Duration;

use super::protocol::{MAX_MESSAGE_BYTES, RequestError};
use crate::tools::{Exit, Launch, ProcessGroup, ProcessGroups, Role, Stdio};

/// What `curl` gets of the agent's environment: how to get out, and whom to trust.
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
/// The variable by which the shell learns what to ask `curl` for.
const CONFIGURATION: &str = "CURL_CONFIGURATION";
/// The body comes by stdin, because a line of a configuration has a limit. All else comes by a pipe of its own and not by
/// the command line, which every process can read. `-q`: nobody's `.curlrc`.
const SCRIPT: &str = "exec curl -q --config /dev/fd/3 3<<END\n$CURL_CONFIGURATION\nEND\n";
const MAX_HEAD_BYTES: u64 = 64 * 1024;
const MAX_COMPLAINT_BYTES: u64 = 4 * 1024;
/// The exit codes of `curl`, and of a shell that does not find it.
const TIMED_OUT: Exit = Exit::Code(28);
const NOT_FOUND: Exit = Exit::Code(127);

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

/// A request that is under way. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Exchange {
    group: ProcessGroup,
    answer: Take<BufReader<PipeReader>>,
    complaint: Option<PipeReader>,
}

/// Status and headers of an answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    headers: Vec<(String, String)>,
}

impl Curl {
    pub(super) fn new(env: &[(OsString, OsString)], processes: &ProcessGroups) -> Self {
        let is_inherited = |name: &OsStr| INHERITED.iter().any(|inherited| name == *inherited);
        let env = env.iter().filter(|(name, _)| is_inherited(name)).cloned().collect();
        Self { env, processes: processes.clone() }
    }

    pub(super) fn send(&self, request: &HttpRequest<'_>) -> Result<Exchange, RequestError> {
        if request.limit.is_zero() {
            return Err(RequestError::TimedOut);
        }
        let configuration = (CONFIGURATION.into(), configuration(request)?.into());
        let launch = Launch {
            program: OsStr::new("/bin/sh"),
            args: &["-c", SCRIPT].map(OsString::from),
            env: &self.env.iter().cloned().chain([configuration]).collect::<Vec<_>>(),
            directory: Path::new("/"),
            stdin: Stdio::Pipe,
            stderr: Stdio::Pipe,
        };
        let (group, pipes) = self.processes.start(&launch, Role::Server)?;
        if let (Some(mut stdin), Some(body)) = (pipes.stdin, request.body) {
            // A program that does not read has ended, and its end says why.
            stdin.write_all(body.as_bytes()).ok();
        }
        let answer = BufReader::new(pipes.stdout).take(MAX_HEAD_BYTES);
        Ok(Exchange { group, answer, complaint: pipes.stderr })
    }
}

impl Exchange {
    /// Waits for the head of the answer. The body comes next.
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
            // An interim answer says only that another one follows.
            if head.status >= 200 {
                self.answer.set_limit(MAX_MESSAGE_BYTES);
                return Ok((head, self));
            }
        }
    }

    /// Some more bytes of the body; none at its end.
    pub(super) fn more(&mut self) -> Result<Vec<u8>, RequestError> {
        let bytes = self.answer.fill_buf().unwrap_or_default().to_vec();
        self.answer.consume(bytes.len());
        if bytes.is_empty() && self.answer.limit() == 0 {
            let size = MAX_MESSAGE_BYTES / 1024 / 1024;
            return Err(RequestError::NotMcp(format!("it is larger than {size} MiB")));
        }
        Ok(bytes)
    }

    /// Waits until the answer has ended, and says whether it was whole.
    pub(super) fn finish(self) -> Result<(), RequestError> {
        match self.group.wait(|| {}) {
            Exit::Code(0) => Ok(()),
            TIMED_OUT => Err(RequestError::TimedOut),
            _ => Err(RequestError::Closed),
        }
    }

    /// Why there is no answer.
    fn failure(self) -> RequestError {
        let mut complaint = Vec::new();
        if let Some(pipe) = self.complaint {
            pipe.take(MAX_COMPLAINT_BYTES).read_to_end(&mut complaint).ok();
        }
        match self.group.wait(|| {}) {
            TIMED_OUT => RequestError::TimedOut,
            NOT_FOUND => {
                RequestError::Unreachable("`curl` is needed for it, and is not here".into())
            }
            _ => {
                let complaint = String::from_utf8_lossy(&complaint);
                RequestError::Unreachable(
                    complaint.lines().next().unwrap_or("no answer").to_owned(),
                )
            }
        }
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

    /// The value of a header, whose name is in small letters.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(held, _)| held == name).map(|(_, value)| value.as_str())
    }
}

/// The request as a configuration file of `curl`.
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
            // Without a value `curl` would leave the header out.
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

/// A value as `curl` reads it back. No line ends come here.
fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn request<'a>(url: &'a str, headers: &'a [(&'a str, &'a str)]) -> HttpRequest<'a> {
        HttpRequest {
            method: "POST",
            url,
            headers,
            body: Some("{}"),
            limit: Duration::from_secs(1),
        }
    }

    #[test]
    fn a_definition_cannot_smuggle_options_into_the_request() {
        let headers = [("X-Key", "a\"\\"), ("Empty", "")];
        let text = configuration(&request("https://a/\"{1,2}", &headers)).unwrap();
        let lines: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("url")).collect();
        assert_eq!(
            lines,
            [
                r#"url = "https://a/\"{1,2}""#,
                r#"header = "X-Key: a\"\\""#,
                r#"header = "Empty;""#,
                r#"data-binary = "@-""#
            ]
        );
        for (url, name, value) in [
            ("https://a\noutput = /x", "a", "b"),
            ("https://a", "a", "b\r\nc: d"),
            ("https://a", "@file", "b"),
            ("https://a", "", "b"),
            ("https://a", "a: b\n", "c"),
        ] {
            assert!(
                configuration(&request(url, &[(name, value)])).is_err(),
                "{url} {name} {value}"
            );
        }
    }

    #[test]
    fn a_head_is_its_status_and_its_headers() {
        let head = Head::parse("HTTP/1.1 200 OK\r\nMcp-Session-Id: a:b \r\n\r\n").unwrap();
        assert_eq!((head.status, head.header("mcp-session-id")), (200, Some("a:b")));
        assert_eq!(Head::parse("SSH-2.0\r\n\r\n"), None);
    }
}
