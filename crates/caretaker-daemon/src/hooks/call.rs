//! Calls one hook.

use std::io;
use std::process::Stdio;
use std::time::Instant;

use admission::request::named_secret::LOGIN_KEYS;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Command;

use super::{Hook, HookAction, HookOutcome, HookUrl};

/// Reads at most this many bytes from a hook.
const LONGEST_ANSWER: u64 = 64 * 1024;
/// Shows at most this many characters of its last line.
const SHOWN: usize = 300;

/// Calls a hook with the JSON.
pub(super) async fn call(hook: &Hook, variables: &[(&str, String)], json: &[u8]) -> HookOutcome {
    let began = Instant::now();
    let called = async {
        match &hook.action {
            HookAction::Command(words) => command(words, variables, json).await,
            HookAction::Webhook(url) => post(url, json).await,
        }
    };
    let called = match tokio::time::timeout(hook.timeout, called).await {
        Ok(called) => called,
        Err(_) => {
            Err(format!("it took longer than {} s, so it was stopped", hook.timeout.as_secs()))
        }
    };
    HookOutcome {
        hook: name(&hook.action),
        is_ok: called.is_ok(),
        problem: called.err(),
        ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
    }
}

/// The hook's name in logs and records, without its arguments, which may be confidential.
fn name(action: &HookAction) -> String {
    match action {
        HookAction::Command(words) => words.first().cloned().unwrap_or_default(),
        HookAction::Webhook(url) => format!("http://{}{}", url.authority, url.path),
    }
}

async fn command(
    words: &[String],
    variables: &[(&str, String)],
    json: &[u8],
) -> Result<(), String> {
    let cannot = |what: &str, error: io::Error| format!("{what}: {error}");
    let (program, arguments) = words.split_first().ok_or("there is no command")?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // If the hook times out, the daemon drops it, which kills it.
        .kill_on_drop(true)
        .process_group(0);
    // A hook does not get the agent's login.
    for key in LOGIN_KEYS {
        command.env_remove(key);
    }
    command.envs(variables.iter().map(|(name, value)| (*name, value)));
    let mut child = command.spawn().map_err(|error| cannot("it cannot be started", error))?;
    let stdin = child.stdin.take();
    let stderr = child.stderr.take();
    let write = async {
        if let Some(mut stdin) = stdin {
            // A hook need not read its input.
            stdin.write_all(json).await.ok();
        }
    };
    let read = async {
        let mut said = Vec::new();
        if let Some(stderr) = stderr {
            stderr.take(LONGEST_ANSWER).read_to_end(&mut said).await.ok();
        }
        said
    };
    let (status, (), said) = tokio::join!(child.wait(), write, read);
    let status = status.map_err(|error| cannot("cannot wait for it to end", error))?;
    if status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&said);
    let last: String = said.trim().lines().last().unwrap_or_default().chars().take(SHOWN).collect();
    Err(if last.is_empty() { status.to_string() } else { format!("{status}: {last}") })
}

async fn post(url: &HookUrl, json: &[u8]) -> Result<(), String> {
    let HookUrl { authority, host, port, path } = url;
    let talk = async {
        let mut stream = TcpStream::connect((host.as_str(), *port)).await?;
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {authority}\r\nuser-agent: caretaker\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            json.len()
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(json).await?;
        let mut answer = Vec::new();
        let mut piece = [0; 1024];
        // Only the first line matters. Do not wait for a server that keeps the connection open.
        while !answer.contains(&b'\n') && answer.len() < SHOWN {
            match stream.read(&mut piece).await? {
                0 => break,
                length => answer.extend_from_slice(&piece[..length]),
            }
        }
        Ok::<_, io::Error>(answer)
    };
    let answer = talk.await.map_err(|error| error.to_string())?;
    let line = String::from_utf8_lossy(&answer);
    let line = line.lines().next().unwrap_or_default();
    let status = line.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5));
    match status.and_then(|status| status.parse::<u16>().ok()) {
        Some(200..=299) => Ok(()),
        Some(status) => Err(format!("it answered {status}")),
        None => Err("its answer is not HTTP".to_owned()),
    }
}
