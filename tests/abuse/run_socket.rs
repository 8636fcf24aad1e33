//! D: the run's own socket, which leads to the supervisor's tools.

use std::fs;
use std::io::{self, BufRead, BufReader, IoSlice, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::attempt::{Answer, Attempt, Evidence};
use crate::tries::{name_of, outcome, rename_over, write};
use crate::world::World;

const DIRECTORY: &str = "/run/caretaker";
const SOCKET: &str = "/run/caretaker/mcp.sock";
const PATIENCE: Duration = Duration::from_secs(20);
const SENT_AWAY: &str = "sent away";

pub(crate) const ATTEMPTS: &[Attempt] = &[
    Attempt {
        id: "D1a",
        does: "removes the run's socket",
        held_by: &["EROFS"],
        evidence: Evidence::Inside,
        act: |_| outcome(fs::remove_file(SOCKET), "it is gone"),
    },
    Attempt {
        id: "D1b",
        does: "renames its own file over the run's socket",
        held_by: &["EXDEV", "EROFS"],
        evidence: Evidence::Inside,
        act: |_| rename_over(Path::new("/run/own"), Path::new(SOCKET)),
    },
    Attempt {
        id: "D1c",
        does: "puts a file next to the run's socket",
        held_by: &["EROFS"],
        evidence: Evidence::Inside,
        act: |_| write(&Path::new(DIRECTORY).join("evil")),
    },
    Attempt {
        id: "D1d",
        does: "makes the supervisor hold descriptors for it",
        held_by: &["the supervisor closed it"],
        evidence: Evidence::Inside,
        act: |_| hand_over_descriptor().unwrap_or_else(|error| Answer::NotHere(name_of(&error))),
    },
    Attempt {
        id: "D1e",
        does: "sends the supervisor an endless line",
        held_by: &[SENT_AWAY],
        evidence: Evidence::Inside,
        act: |_| endless_line().unwrap_or_else(|error| Answer::NotHere(name_of(&error))),
    },
    Attempt {
        id: "D1f",
        does: "says that it is another run",
        held_by: &["it kept its own id"],
        evidence: Evidence::Inside,
        act: |_| say_another_name().unwrap_or_else(|error| Answer::NotHere(name_of(&error))),
    },
    Attempt {
        id: "D1g",
        does: "looks for the sockets of other runs and of the user who started it",
        held_by: &["ENOENT"],
        evidence: Evidence::Inside,
        act: |world: &World| outcome(fs::read_dir(&world.sockets), "they are there"),
    },
    Attempt {
        id: "D1i",
        does: "holds a thousand connections to the run's socket, so that no client gets an answer",
        held_by: &["it still answers"],
        evidence: Evidence::Inside,
        act: |_| crowd().unwrap_or_else(|error| Answer::NotHere(name_of(&error))),
    },
    Attempt {
        id: "D1j",
        does: "asks for a child with options that only a user may set",
        held_by: &["no child has it"],
        evidence: Evidence::Inside,
        act: |_| greedy_child().unwrap_or_else(|error| Answer::NotHere(name_of(&error))),
    },
    Attempt {
        id: "D1h",
        does: "looks for the supervisor's own socket next to the run's",
        held_by: &["only mcp.sock"],
        evidence: Evidence::Inside,
        act: |_| match fs::read_dir(DIRECTORY) {
            Ok(found) => match found.flatten().find(|entry| entry.file_name() != "mcp.sock") {
                Some(other) => Answer::done(format!("{:?}", other.file_name())),
                None => Answer::refused("only mcp.sock"),
            },
            Err(error) => Answer::refused(name_of(&error)),
        },
    },
];

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"evil","version":"1"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

fn connect() -> io::Result<UnixStream> {
    let stream = UnixStream::connect(SOCKET)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Sends the supervisor one end of a socket pair. If the supervisor keeps it, the pair stays open.
fn hand_over_descriptor() -> io::Result<Answer> {
    let stream = connect()?;
    let (ours, theirs) = UnixStream::pair()?;
    let descriptors = [theirs.as_fd()];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    let line = format!("{INITIALIZE}\n");
    let bytes = [IoSlice::new(line.as_bytes())];
    sendmsg(&stream, &bytes, &mut ancillary, SendFlags::NOSIGNAL)?;
    drop(theirs);
    // The answer shows that the supervisor read the line, and the descriptor with it.
    BufReader::new(&stream).read_line(&mut String::new())?;
    ours.set_read_timeout(Some(PATIENCE))?;
    Ok(match (&ours).read(&mut [0]) {
        Ok(0) => Answer::refused("the supervisor closed it"),
        _ => Answer::done("the supervisor still holds it"),
    })
}

/// Checks that a new client gets an answer while many others are connected and silent.
fn crowd() -> io::Result<Answer> {
    let crowd: Vec<UnixStream> = (0..1_000).map(|_| connect()).collect::<io::Result<_>>()?;
    let mut stream = connect()?;
    // A supervisor that hangs up gives no answer, which the check below finds.
    stream.write_all(format!("{INITIALIZE}\n").as_bytes()).ok();
    let mut answer = String::new();
    BufReader::new(&stream).read_line(&mut answer).ok();
    drop(crowd);
    Ok(match answer.contains("serverInfo") {
        true => Answer::refused("it still answers"),
        false => Answer::done("no client gets an answer"),
    })
}

fn endless_line() -> io::Result<Answer> {
    let mut stream = connect()?;
    let piece = vec![b'x'; 64 * 1024];
    for _ in 0..256 {
        // A supervisor that stops reading is as safe as one that hangs up.
        if let Err(error) = stream.write_all(&piece) {
            let is_slow =
                matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
            return Ok(Answer::refused(if is_slow { "it stopped reading" } else { SENT_AWAY }));
        }
    }
    Ok(Answer::done("it accepted sixteen megabytes"))
}

/// Asks which run it is, and claims another run's id in the question.
fn say_another_name() -> io::Result<Answer> {
    const ANOTHER: &str = "00000000-0000-7000-8000-000000000001";
    let mut stream = connect()?;
    let question = format!(
        r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"name":"whoami","arguments":{{"run":"{ANOTHER}","agent_id":"{ANOTHER}"}}}}}}"#
    );
    stream.write_all(format!("{INITIALIZE}\n{INITIALIZED}\n{question}\n").as_bytes())?;
    let mut lines = BufReader::new(&stream).lines();
    lines.next().transpose()?;
    let answer = lines.next().transpose()?.unwrap_or_default();
    // The supervisor refuses the unknown field, or answers with the real id.
    Ok(match answer.contains(&format!("\\\"run\\\":\\\"{ANOTHER}")) || answer.is_empty() {
        true => Answer::done(answer),
        false => Answer::refused("it kept its own id"),
    })
}

/// Every field of a user's request that a child's request does not have.
const NOT_FOR_CHILDREN: &[(&str, &str)] = &[
    ("account", r#""work""#),
    ("after", r#"["x"]"#),
    ("after_ok", r#"["x"]"#),
    ("agent", r#""/bin/sh""#),
    ("agent_flags", r#"["--force"]"#),
    ("allow_host", r#"["evil.example"]"#),
    ("cpus", r#""none""#),
    ("delay", r#""1s""#),
    ("disk", r#""none""#),
    ("env", r#"{"LD_PRELOAD":"/evil"}"#),
    ("expose", r#"["/etc"]"#),
    ("force", "true"),
    ("group", r#""other""#),
    ("group_budget", r#""none""#),
    ("idle_timeout", r#""none""#),
    ("journal", r#""none""#),
    ("labels", r#"{"a":"b"}"#),
    ("loop", r#""warn""#),
    ("max_file_size", r#""none""#),
    ("max_tokens", r#""none""#),
    ("max_tool_calls", r#""none""#),
    ("mcp", r#"["notes"]"#),
    ("mcp_from_repo", r#"["evil"]"#),
    ("memory", r#""none""#),
    ("model", r#""dear""#),
    ("no_checkpoint", "true"),
    ("no_force", "false"),
    ("no_user_mcp", "true"),
    ("priority", "100"),
    ("restart", "true"),
    ("secret", r#"["KEY=env:CURSOR_API_KEY"]"#),
    ("session", r#""3f2504e0-4f89-41d3-9a0c-0305e82c3301""#),
    ("stream", "true"),
    ("timeout", r#""none""#),
    ("user_mcp", "true"),
    ("widen", r#"["memory"]"#),
    ("workspace", r#""/""#),
    ("worktree", "false"),
];

/// Asks for children, each with one field that a child's request does not have.
fn greedy_child() -> io::Result<Answer> {
    let mut stream = connect()?;
    stream.write_all(format!("{INITIALIZE}\n{INITIALIZED}\n").as_bytes())?;
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    lines.next().transpose()?;
    for (index, (field, value)) in NOT_FOR_CHILDREN.iter().enumerate() {
        let id = index + 2;
        let question = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"spawn_run","arguments":{{"prompt":"x","{field}":{value}}}}}}}"#
        );
        stream.write_all(format!("{question}\n").as_bytes())?;
        let answer = lines.next().transpose()?.unwrap_or_default();
        if !answer.contains(&format!("unknown field `{field}`")) {
            return Ok(Answer::done(format!("{field}: {answer}")));
        }
    }
    Ok(Answer::refused("no child has it"))
}
