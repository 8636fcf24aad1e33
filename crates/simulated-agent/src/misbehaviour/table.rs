//! The table of misbehaviours, in the order of `--help-scenarios`.

use super::Act::{At, AtOnce, AtStartup, Bucket, CreateChat, Forget, KillAt};
use super::Takes::{CrashPoint as Point, Nothing, Number};
use super::{Act, Moment, Scenario, Takes, acts};
use crate::session_store::CrashPoint;

const fn row(name: &'static str, takes: Takes, act: Act, summary: &'static str) -> Scenario {
    Scenario { name, takes, summary, act }
}

#[rustfmt::skip] // a table: one line per row
pub(super) static SCENARIOS: &[Scenario] = &[
    row("auth-failure", Nothing, AtStartup(acts::not_logged_in), "fails as if the user were not logged in"),
    row("auth-hang", Nothing, AtStartup(acts::hang), "hangs before the first line"),
    row("config-race", Nothing, AtStartup(acts::config_race), "loses the race for cli-config.json.tmp"),
    row("model-refused", Nothing, AtStartup(acts::refuse_model), "fails as if the model were unknown"),
    row("create-chat-hangs", Nothing, CreateChat, "create-chat prints the id and does not exit"),
    row("forget", Nothing, Forget, "begins an empty conversation in place of the session's own"),
    row("sha256-bucket", Nothing, Bucket(acts::sha256_bucket), "names the workspace's bucket of sessions by SHA-256"),
    row("renamed-bucket", Nothing, Bucket(acts::renamed_bucket), "renames the bucket and each of its sessions from MD5 to SHA-256 first"),
    row("unknown-bucket", Nothing, Bucket(acts::unknown_bucket), "names the bucket as no known version does"),
    row("silence", Number("SECONDS", 30), AtOnce(acts::silence), "says nothing for a while"),
    row("ignore-term", Nothing, AtOnce(acts::ignore_signals), "ignores SIGINT and SIGTERM"),
    row("orphan-worker", Nothing, AtOnce(acts::orphan_worker), "leaves a worker-server in its own session on worker.sock"),
    row("unkillable-child", Nothing, AtOnce(acts::unkillable_child), "leaves a child in its own session that ignores signals and holds stdout open"),
    row("background-shell", Number("SECONDS", 600), AtOnce(acts::background_shell), "leaves a background shell running (with --force): no result until it ends"),
    row("giant-line", Number("MIB", 20), AtOnce(acts::giant_line), "prints one line of that size"),
    row("huge-output", Number("BYTES", 2 << 30), AtOnce(acts::huge_output), "prints that much in lines of 64 KiB"),
    row("flood", Number("EVENTS PER SECOND", 1000), AtOnce(acts::flood), "prints that many events a second for three seconds"),
    row("long-answer", Number("KB", 235), AtOnce(acts::long_answer), "gives an answer of that length"),
    row("stderr-flood", Number("MIB", 4), AtOnce(acts::stderr_flood), "writes that much to stderr"),
    row("split-utf8", Nothing, AtOnce(acts::split_characters), "ends writes in the middle of characters from here on"),
    row("noise", Nothing, AtOnce(acts::noise), "prints a line that is not JSON after each event from here on"),
    row("stdout-prefix", Nothing, AtOnce(acts::prefix), "begins each line with `stdout: ` from here on"),
    row("unknown-events", Nothing, AtOnce(acts::unknown_events), "prints events, fields and tools from a different version"),
    row("completed-without-started", Nothing, AtOnce(acts::completed_without_started), "completes a tool call that never started"),
    row("reconnect", Nothing, AtOnce(acts::reconnect), "loses the connection once, reconnects and continues"),
    row("reconnect-then-fail", Nothing, AtOnce(acts::reconnect_then_fail), "reconnects three times, then fails: exit 1, no result"),
    row("kill-mid-line", Number("LINES", 0), AtOnce(acts::kill_mid_line), "after that many lines, prints half a line and is killed by SIGKILL"),
    row("crash-mid-tool", Nothing, At(Moment::MidTool, acts::crash), "dies with an exception while the next tool runs, exit 1"),
    row("kill-mid-tool", Nothing, At(Moment::MidTool, acts::kill), "is killed by SIGKILL while the next tool runs"),
    row("kill-before-first-root", Nothing, KillAt(Some(CrashPoint::BeforeFirstRoot)), "is killed by SIGKILL with blobs in the store but no root"),
    row("kill-at", Point, KillAt(None), "is killed by SIGKILL at that point in the session's writer"),
    row("no-result", Nothing, At(Moment::BeforeResult, acts::no_result), "exits 0 without a result"),
    row("linger", Number("SECONDS", 600), At(Moment::AfterResult, acts::silence), "does not exit after the result"),
];
