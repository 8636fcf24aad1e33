//! The misbehaviours themselves: one small function each.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use cursor_home::{BucketHash, CursorRoots, WorkspacePath};
use ground::now_ms;
use serde_json::{Value, json};

use crate::process::ending::Ending;
use crate::process::failures::{NOT_LOGGED_IN, UNAVAILABLE};
use crate::process::stdout::kill_this_process;
use crate::process::{LONGEST_LIFE, helpers};
use crate::startup::{Startup, cli_config, models};
use crate::tools::{ArgsKept, Background, PreparedCall, ShellRequest, ToolRequest, ToolRun};
use crate::turn::Turn;
use crate::turn::events::{StreamedCall, new_call_id, tokens};

const MIB: usize = 1 << 20;

/// Long enough for the tools to start.
const TOOLS_BEGIN: Duration = Duration::from_millis(250);

type Done = Result<(), Ending>;

pub(super) fn not_logged_in(_: &Startup<'_>) -> Ending {
    Ending::failure(NOT_LOGGED_IN)
}

pub(super) fn hang(_: &Startup<'_>) -> Ending {
    thread::sleep(LONGEST_LIFE);
    Ending::failure(NOT_LOGGED_IN)
}

pub(super) fn config_race(startup: &Startup<'_>) -> Ending {
    cli_config::lost_race(&startup.roots.cli_config())
}

pub(super) fn refuse_model(startup: &Startup<'_>) -> Ending {
    let model = startup.options.model.as_deref();
    Ending::failure(models::refusal(model.unwrap_or(models::DEFAULT)))
}

pub(super) fn sha256_bucket(roots: &CursorRoots, workspace: &WorkspacePath) -> PathBuf {
    roots.chats().join(workspace.bucket_by(BucketHash::Sha256))
}

/// Like the vendor's SDK, but it also renames the sessions if it cannot rename the bucket.
pub(super) fn renamed_bucket(roots: &CursorRoots, workspace: &WorkspacePath) -> PathBuf {
    let (old, new) = (roots.chats_of(workspace), sha256_bucket(roots, workspace));
    let rename = |from: &Path, to: &Path| {
        let renamed = fs::rename(from, to);
        if let Err(err) = &renamed
            && err.kind() != io::ErrorKind::NotFound
        {
            writeln!(io::stderr(), "cannot rename {}: {err}", from.display()).ok();
        }
        renamed.is_ok()
    };
    if !rename(&old, &new) {
        for session in fs::read_dir(&old).into_iter().flatten().flatten() {
            rename(&session.path(), &new.join(session.file_name()));
        }
    }
    new
}

pub(super) fn unknown_bucket(roots: &CursorRoots, workspace: &WorkspacePath) -> PathBuf {
    roots.chats().join(format!("workspace-{}", workspace.slug()))
}

pub(super) fn silence(_: &mut Turn, seconds: u64) -> Done {
    thread::sleep(Duration::from_secs(seconds).min(LONGEST_LIFE));
    Ok(())
}

pub(super) fn ignore_signals(turn: &mut Turn, _: u64) -> Done {
    turn.ears.close();
    Ok(())
}

pub(super) fn orphan_worker(turn: &mut Turn, _: u64) -> Done {
    Ok(helpers::start_orphan_worker(&turn.reentry, &turn.project_directory.worker_socket())?)
}

pub(super) fn unkillable_child(turn: &mut Turn, _: u64) -> Done {
    Ok(helpers::start_deaf_child(&turn.reentry, &turn.project_directory.worker_log())?)
}

pub(super) fn background_shell(turn: &mut Turn, seconds: u64) -> Done {
    let seconds = seconds.min(LONGEST_LIFE.as_secs());
    turn.call(&[ToolRequest::Shell(ShellRequest {
        command: format!("sleep {seconds}"),
        timeout: Duration::from_secs(30),
        background: Background::Yes,
        description: "Stays in the background".to_owned(),
    })])
    .map(drop)
}

/// Prints an edit event, which carries the whole file.
pub(super) fn giant_line(turn: &mut Turn, mib: u64) -> Done {
    let content = "All work and no play. ".repeat(mib as usize * MIB / 22 + 1);
    let path = turn.workspace_file("giant.txt");
    let result = json!({ "success": {
        "path": path, "linesAdded": 1, "linesRemoved": 0, "diffString": "",
        "afterFullFileContent": content,
    }});
    imagined_call(turn, "editToolCall", json!({ "path": path }), result, true)
}

pub(super) fn completed_without_started(turn: &mut Turn, _: u64) -> Done {
    let result = json!({ "success": { "references": [] } });
    let args = json!({ "searchTerm": "nothing", "toolCallId": "" });
    imagined_call(turn, "webSearchToolCall", args, result, false)
}

/// Prints a call that never ran.
fn imagined_call(
    turn: &Turn,
    key: &'static str,
    args: Value,
    result: Value,
    has_started: bool,
) -> Done {
    let prepared = PreparedCall::new(key, "Imagined", args.clone(), args);
    let call = StreamedCall {
        call_id: &new_call_id(),
        model_call_id: &turn.events.model_call_id(0),
        prepared: &prepared,
        started_at_ms: now_ms(),
    };
    let run =
        ToolRun { args_kept: ArgsKept::Kept, result, for_model: String::new(), is_error: false };
    if has_started {
        turn.emit(&turn.events.tool_started(&call))?;
    }
    turn.emit(&turn.events.tool_completed(&call, &run))
}

pub(super) fn huge_output(turn: &mut Turn, n_bytes: u64) -> Done {
    let event = turn.events.thinking_delta(&"endless ".repeat(8 * 1024));
    turn.emit_repeatedly(&event, n_bytes)
}

pub(super) fn flood(turn: &mut Turn, per_second: u64) -> Done {
    const SECONDS: u64 = 3;
    let started = Instant::now();
    for n_printed in 0..per_second * SECONDS {
        let due = Duration::from_micros(n_printed * 1_000_000 / per_second);
        thread::sleep(due.saturating_sub(started.elapsed()));
        turn.emit(&turn.events.thinking_delta(" drop"))?;
    }
    Ok(())
}

pub(super) fn long_answer(turn: &mut Turn, kilobytes: u64) -> Done {
    let line = "The quick brown fox jumps over the lazy dog; it does so again.\n";
    turn.say(line.repeat(kilobytes as usize * 1000 / line.len() + 1).trim_end())
}

pub(super) fn stderr_flood(_: &mut Turn, mib: u64) -> Done {
    let line = "(node:4242) Warning: something went a little wrong, again\n";
    let block = line.repeat(MIB / line.len() + 1);
    let mut stderr = io::stderr().lock();
    for _ in 0..mib {
        stderr.write_all(block.as_bytes())?;
    }
    Ok(())
}

pub(super) fn split_characters(turn: &mut Turn, _: u64) -> Done {
    turn.output.change_habits(|habits| habits.split_characters = true);
    tokens("Grüße aus Köln — 日本語 and 🦀.")
        .into_iter()
        .try_for_each(|token| turn.emit(&turn.events.thinking_delta(token)))
}

pub(super) fn noise(turn: &mut Turn, _: u64) -> Done {
    turn.output.change_habits(|habits| habits.noise = true);
    Ok(())
}

pub(super) fn prefix(turn: &mut Turn, _: u64) -> Done {
    turn.output.change_habits(|habits| habits.prefix = true);
    Ok(())
}

/// New types and subtypes, renamed fields, extra keys, an unknown tool.
pub(super) fn unknown_events(turn: &mut Turn, _: u64) -> Done {
    let session_id = turn.events.session_id.as_str();
    let mut extra_keys = turn.events.thinking_delta(" as before, and more");
    extra_keys["mood"] = json!({ "curious": true });
    for event in [
        json!({ "type": "telemetry", "subtype": "beat", "session_id": session_id, "n": 1 }),
        json!({ "type": "system", "subtype": "weather", "session_id": session_id, "sky": "blue" }),
        json!({ "type": "thinking", "subtype": "delta", "content": "renamed", "sessionId": session_id }),
        json!({ "type": "tool_call", "subtype": "paused", "callId": "call_x", "session_id": session_id }),
        json!({ "kind": "status", "session_id": session_id }),
        json!(["an", "array"]),
        extra_keys,
    ] {
        turn.emit(&event)?;
    }
    let result = json!({ "deferred": { "until": "tomorrow" } });
    imagined_call(turn, "teleportToolCall", json!({ "to": "the moon" }), result, true)
}

pub(super) fn reconnect(turn: &mut Turn, _: u64) -> Done {
    turn.reconnect(1)
}

pub(super) fn reconnect_then_fail(turn: &mut Turn, _: u64) -> Done {
    turn.retry_in_vain(UNAVAILABLE)
}

pub(super) fn kill_mid_line(turn: &mut Turn, n_lines: u64) -> Done {
    turn.output.die_mid_line_after(n_lines);
    Ok(())
}

/// Ends the process immediately. Like node, it leaves the processes of its tools alone.
pub(super) fn crash(_: &mut Turn, _: u64) -> Done {
    thread::sleep(TOOLS_BEGIN);
    let trace = "TypeError: Cannot read properties of undefined (reading 'close')\n    \
                 at simulated (index.js:1:1)\n\nNode.js v24.5.0\n";
    io::stderr().write_all(trace.as_bytes())?;
    std::process::exit(1)
}

pub(super) fn kill(_: &mut Turn, _: u64) -> Done {
    thread::sleep(TOOLS_BEGIN);
    kill_this_process()
}

pub(super) fn no_result(_: &mut Turn, _: u64) -> Done {
    Err(Ending::quiet(0))
}
