//! Prompts that are too long for a request in memory: the API accepts them, like the command line.

use std::fs::File;
use std::io::{Read, Write};
use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::TcpDoor;
use crate::stage::{assert_exit, stderr};

/// The longest prompt that the command line and the API accept.
const LONGEST: usize = 64 << 20;
const TOO_LONG: &str = "the prompt is longer than 64 MiB";

impl TcpDoor {
    /// Returns the request path for a prompt that is the whole body.
    fn path_for_prompt(&self, run: &Value) -> String {
        let run = run.to_string();
        let run: String = run.bytes().map(|byte| format!("%{byte:02x}")).collect();
        format!("/v1/runs?run={run}")
    }

    fn path_for_run(&self, workspace: &str) -> String {
        let workspace = self.stage.new_workspace(workspace);
        self.path_for_prompt(&json!({"workspace": workspace, "agent": "simulated"}))
    }

    /// Sends a prompt in pieces, and returns the status and body of the answer. A refusal may arrive before the last
    /// piece is sent.
    fn send_prompt(&self, path: &str, pieces: impl IntoIterator<Item = Vec<u8>>) -> (u16, String) {
        let mut stream = self.connect();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\nauthorization: {}\r\nconnection: close\r\n\
             transfer-encoding: chunked\r\n\r\n",
            self.address, self.bearer
        );
        stream.write_all(head.as_bytes()).unwrap();
        for piece in pieces {
            let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
            chunk.extend_from_slice(&piece);
            chunk.extend_from_slice(b"\r\n");
            if stream.write_all(&chunk).is_err() {
                break;
            }
        }
        stream.write_all(b"0\r\n\r\n").ok();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.unwrap_or(0), body.to_owned())
    }
}

/// Returns a prompt of this length, in pieces that split its characters.
fn pieces(length: usize) -> impl Iterator<Item = Vec<u8>> {
    // An odd number of bytes, so that nearly every second piece splits a two-byte character.
    let piece_length = 999_999;
    (0..length).step_by(piece_length).map(move |begins| {
        let ends = (begins + piece_length).min(length);
        (begins..ends).map(|at| byte_at(at, length)).collect()
    })
}

fn byte_at(at: usize, length: usize) -> u8 {
    match at % 2 {
        _ if at + 1 == length && length % 2 == 1 => b'.',
        0 => 0xc3,
        _ => 0xa9,
    }
}

fn is_same_file(path: &std::path::Path, length: usize) -> bool {
    let bytes = std::fs::read(path).unwrap();
    bytes.len() == length && bytes.iter().enumerate().all(|(at, byte)| *byte == byte_at(at, length))
}

#[test]
fn the_command_line_and_the_api_accept_the_same_longest_prompt() {
    let door = TcpDoor::open();
    let stage = &door.stage;
    // The queue is paused, so that the simulated agent does not have to read the whole prompt.
    assert!(stage.output(&["queue", "pause"]).status.success());
    let file = stage.root().join("prompt.md");
    let write = |length| {
        let mut to = File::create(&file).unwrap();
        pieces(length).for_each(|piece| to.write_all(&piece).unwrap());
    };
    let by_command = |workspace: &str| {
        let workspace = stage.new_workspace(workspace);
        let (workspace, file) = (workspace.to_str().unwrap(), file.to_str().unwrap());
        stage.output(&["run", "--agent", "simulated", "-d", "-C", workspace, "-f", file])
    };
    write(LONGEST);
    let output = by_command("one");
    assert_exit(&output, 0);
    let queued = String::from_utf8(output.stdout).unwrap();
    assert!(is_same_file(&stage.runs().join(queued.trim()).join("prompt"), LONGEST));

    let (status, answer) = door.send_prompt(&door.path_for_run("two"), pieces(LONGEST));
    assert_eq!(status, 202, "{answer}");
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let run = answer["run"].as_str().unwrap();
    assert!(is_same_file(&stage.runs().join(run).join("prompt"), LONGEST));
    let created = stage.journal(run)[0].line["run"].clone();
    assert_eq!(created["prompt_length"], json!(LONGEST));
    assert_eq!(created["prompt_start"].as_str().unwrap(), "é".repeat(200));

    write(LONGEST + 1);
    let output = by_command("one");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains(TOO_LONG), "{}", stderr(&output));
    let (status, answer) = door.send_prompt(&door.path_for_run("two"), pieces(LONGEST + 1));
    assert_eq!(status, 413, "{answer}");
    assert!(answer.contains(TOO_LONG), "{answer}");
    assert_eq!(stage.run_ids().len(), 2);
}

#[test]
fn long_prompts_together_take_little_memory() {
    let door = TcpDoor::open();
    assert!(door.stage.output(&["queue", "pause"]).status.success());
    // The program's own pages count too, and a debug build has many. After one run they are all loaded.
    let (status, answer) = door.send_prompt(&door.path_for_run("first"), pieces(1 << 20));
    assert_eq!(status, 202, "{answer}");
    let before = door.peak_memory();
    let length = 24 << 20;
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..6)
            .map(|number| {
                let path = door.path_for_run(&format!("workspace-{number}"));
                let door = &door;
                scope.spawn(move || door.send_prompt(&path, pieces(length)))
            })
            .collect();
        for client in clients {
            let (status, answer) = client.join().unwrap();
            assert_eq!(status, 202, "{answer}");
        }
    });
    let more = door.peak_memory() - before;
    assert!(more < 24 * 1024, "the daemon used {more} KiB more than {before}");
}

#[test]
fn a_prompt_that_never_arrives_times_out_and_leaves_nothing_behind() {
    let door = TcpDoor::open();
    let path = door.path_for_run("one");
    let state = || {
        let entries = std::fs::read_dir(door.stage.root().join("state")).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = state();
    let mut stream = door.connect();
    let head = door.post_head(LONGEST).replace("/v1/runs", &path);
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&[b'x'; 1000]).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert_eq!(state(), before);
    assert_eq!(door.stage.run_ids(), [] as [String; 0]);
}

#[test]
fn the_api_refuses_the_prompts_that_the_command_line_refuses() {
    let door = TcpDoor::open();
    for (prompt, why) in [
        (&b" \n"[..], "the prompt is empty"),
        (b"a\0b", "the prompt has a NUL character, at byte 1"),
        (b"caf\xe9", "the prompt is not UTF-8, from byte 3"),
    ] {
        let (status, answer) = door.send_prompt(&door.path_for_run("one"), [prompt.to_vec()]);
        assert_eq!(status, 400, "{answer}");
        assert!(answer.contains(why), "{answer}");
        let Ok(prompt) = std::str::from_utf8(prompt) else { continue };
        let workspace = door.stage.new_workspace("one");
        let body = json!({"workspace": workspace, "prompt": prompt}).to_string();
        let (status, answer) = door.ask("POST", "/v1/runs", &body);
        assert_eq!(status, 400, "{answer}");
        assert!(answer.contains(why), "{answer}");
    }
    let workspace = door.stage.new_workspace("one");
    let twice = json!({"workspace": workspace, "prompt": "hi"});
    let (status, answer) = door.send_prompt(&door.path_for_prompt(&twice), [b"hi".to_vec()]);
    assert_eq!(status, 400, "{answer}");
    let unknown = json!({"workspace": workspace, "colour": "red"});
    let (status, answer) = door.send_prompt(&door.path_for_prompt(&unknown), [b"hi".to_vec()]);
    assert_eq!(status, 400, "{answer}");
    assert_eq!(door.stage.run_ids(), [] as [String; 0]);
}

#[test]
fn a_prompt_that_is_a_whole_body_is_played() {
    let door = TcpDoor::open();
    let script = "Play this:\n```agent\nsay It came as a body.\n```\n";
    let path = door.path_for_run("one");
    let (status, answer) = door.send_prompt(&path, script.bytes().map(|byte| vec![byte]));
    assert_eq!(status, 202, "{answer}");
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let run = answer["run"].as_str().unwrap();
    assert_eq!(door.stage.wait_for_end(run), Some(0), "{}", door.stage.why(run));
    let said = std::fs::read_to_string(door.stage.journal_path(run)).unwrap();
    assert!(said.contains("It came as a body."));
}
