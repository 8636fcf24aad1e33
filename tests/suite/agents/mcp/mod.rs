//! An agent's MCP servers: chosen for a run, changed while it runs, kept for the session, and counted.

mod changes;
mod choice;
mod remote;
mod tools;
mod user_file;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value, json};

use crate::stage::{Stage, assert_exit};

const KEY: &str = "key-of-the-users-own-server";

/// A server with `N_TOOLS` tools, including `tell`.
const SERVER: &str = r#"
tools='{"name":"tell","inputSchema":{"type":"object"}}'
n=1; while [ "$n" -lt "${N_TOOLS:-1}" ]; do tools="$tools,{\"name\":\"t$n\",\"inputSchema\":{\"type\":\"object\"}}"; n=$((n+1)); done
while read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case $line in
    *'"initialize"'*) answer='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
    *'"tools/list"'*) answer="{\"tools\":[$tools]}" ;;
    *'"tools/call"'*) answer="{\"content\":[{\"type\":\"text\",\"text\":\"told by $NAME: $NOTES_KEY\"}],\"isError\":false}" ;;
    *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$answer"
done
"#;

pub(crate) fn server(name: &str) -> Value {
    json!({"command": "/bin/sh", "args": ["-c", SERVER], "env": {"NAME": name, "NOTES_KEY": KEY}})
}

/// Makes a stage whose user has these servers.
fn stage_with(servers: Value) -> Stage {
    let stage = Stage::new();
    user_defines(&stage, &servers);
    stage
}

#[track_caller]
fn done(output: &Output) -> Value {
    assert_exit(output, 0);
    serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
}

fn events(stage: &Stage, run: &str, kind: &str) -> Vec<Value> {
    let events = stage.journal(run).into_iter().map(|entry| entry.line["run"].clone());
    events.filter(|event| event["kind"] == kind).collect()
}

/// Returns the server names in a file that an agent read.
fn names(file: &str) -> Vec<String> {
    let file: Value = serde_json::from_str(file).unwrap();
    file["mcpServers"].as_object().unwrap().keys().cloned().collect()
}

/// A FIFO in the workspace that a script waits for.
struct Gate(PathBuf);

impl Gate {
    fn new(stage: &Stage, name: &str) -> Self {
        let path = stage.workspace().join(name);
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        Self(path)
    }

    /// Waits until the script has reached the gate, and lets it continue.
    fn open(&self) {
        let mut gate = std::fs::OpenOptions::new().write(true).open(&self.0).unwrap();
        gate.write_all(b"go\n").unwrap();
    }
}

fn user_defines(stage: &Stage, servers: &Value) {
    define(&stage.home(), servers);
}

fn repository_defines(stage: &Stage, servers: &Value) {
    define(&stage.workspace(), servers);
}

fn define(place: &Path, servers: &Value) {
    std::fs::create_dir_all(place.join(".cursor")).unwrap();
    let file = place.join(".cursor/mcp.json");
    std::fs::write(file, json!({"mcpServers": servers}).to_string()).unwrap();
}

fn latest_journal(stage: &Stage) -> String {
    std::fs::read_to_string(stage.journal_path(&stage.run_ids().pop().unwrap())).unwrap()
}
