//! The table of misbehaviours, in the order in which `--help-scenarios` lists them.

use super::{Act, Moment, Scenario, Takes, acts, startup};
use crate::session_store::CrashPoint;

const fn plain(name: &'static str, summary: &'static str, act: Act) -> Scenario {
    Scenario { name, summary, takes: Takes::Nothing, act }
}

const fn numbered(
    name: &'static str,
    unit: &'static str,
    default: u64,
    summary: &'static str,
    act: Act,
) -> Scenario {
    Scenario { name, summary, takes: Takes::Number { unit, default }, act }
}

const GIB: u64 = 1 << 30;

pub(super) static SCENARIOS: &[Scenario] = &[
    plain(
        "auth-failure",
        "fails as if nobody were logged in",
        Act::AtStartup(startup::not_logged_in),
    ),
    plain("auth-hang", "hangs before the first line", Act::AtStartup(startup::hang)),
    plain(
        "config-race",
        "loses the race for cli-config.json.tmp",
        Act::AtStartup(startup::config_race),
    ),
    plain(
        "model-refused",
        "fails as if the model were unknown",
        Act::AtStartup(startup::refuse_model),
    ),
    plain("create-chat-hangs", "create-chat prints the id and does not exit", Act::CreateChat),
    plain("forget", "begins an empty conversation in the place of the session's own", Act::Forget),
    numbered("silence", "SECONDS", 30, "says nothing for a while", Act::AtOnce(acts::silence)),
    plain("ignore-term", "ignores SIGINT and SIGTERM", Act::AtOnce(acts::ignore_signals)),
    plain(
        "orphan-worker",
        "leaves a worker-server in its own session on worker.sock",
        Act::AtOnce(acts::orphan_worker),
    ),
    plain(
        "unkillable-child",
        "leaves a deaf child in its own session, holding stdout",
        Act::AtOnce(acts::unkillable_child),
    ),
    numbered(
        "background-shell",
        "SECONDS",
        600,
        "a background shell lives (with --force): no result until it ends",
        Act::AtOnce(acts::background_shell),
    ),
    numbered(
        "giant-line",
        "MIB",
        20,
        "prints one line of that size",
        Act::AtOnce(acts::giant_line),
    ),
    numbered(
        "huge-output",
        "BYTES",
        2 * GIB,
        "prints that much in lines of 64 KiB",
        Act::AtOnce(acts::huge_output),
    ),
    numbered(
        "flood",
        "EVENTS PER SECOND",
        1000,
        "prints that many events a second for three seconds",
        Act::AtOnce(acts::flood),
    ),
    numbered(
        "long-answer",
        "KB",
        235,
        "gives an answer of that length",
        Act::AtOnce(acts::long_answer),
    ),
    numbered(
        "stderr-flood",
        "MIB",
        4,
        "writes that much to stderr",
        Act::AtOnce(acts::stderr_flood),
    ),
    plain(
        "split-utf8",
        "ends writes in the middle of characters from here on",
        Act::AtOnce(acts::split_characters),
    ),
    plain(
        "noise",
        "prints a line that is not JSON after each event from here on",
        Act::AtOnce(acts::noise),
    ),
    plain(
        "stdout-prefix",
        "begins each line with `stdout: ` from here on",
        Act::AtOnce(acts::prefix),
    ),
    plain(
        "unknown-events",
        "prints events, fields and tools of another version",
        Act::AtOnce(acts::unknown_events),
    ),
    plain(
        "completed-without-started",
        "completes a tool call that never started",
        Act::AtOnce(acts::completed_without_started),
    ),
    plain(
        "reconnect",
        "loses the connection once, finds it again and goes on",
        Act::AtOnce(acts::reconnect),
    ),
    plain(
        "reconnect-then-fail",
        "loses and finds the connection three times in vain, exit 1, no result",
        Act::AtOnce(acts::reconnect_then_fail),
    ),
    numbered(
        "kill-mid-line",
        "LINES",
        0,
        "after so many lines, prints half a line and dies by SIGKILL",
        Act::AtOnce(acts::kill_mid_line),
    ),
    plain(
        "crash-mid-tool",
        "dies of an exception while the next tool runs, exit 1",
        Act::At(Moment::MidTool, acts::crash),
    ),
    plain(
        "kill-mid-tool",
        "dies by SIGKILL while the next tool runs",
        Act::At(Moment::MidTool, acts::kill),
    ),
    plain(
        "kill-before-first-root",
        "dies by SIGKILL with blobs in the store but no root",
        Act::KillAt(Some(CrashPoint::BeforeFirstRoot)),
    ),
    Scenario {
        name: "kill-at",
        summary: "dies by SIGKILL at that point of the session's writer",
        takes: Takes::CrashPoint,
        act: Act::KillAt(None),
    },
    plain("no-result", "exits 0 without a result", Act::At(Moment::BeforeResult, acts::no_result)),
    numbered(
        "linger",
        "SECONDS",
        600,
        "does not exit after the result",
        Act::At(Moment::AfterResult, acts::silence),
    ),
];
