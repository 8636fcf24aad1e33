//! `sessions` commands that change nothing.

use super::Shown;
use super::stores::{self, ACP, CUT_OFF, IDE, PARSER, TRANSCRIPT};
use crate::stage::Stage;

/// A blob's id is a hash of its content, which includes the stage's paths.
pub(super) fn shown_of(stage: &Stage) -> Shown<'_> {
    Shown::of(stage)
        .also(r"\b[0-9a-f]{64}\b", "<sha256>")
        .also(r"\bcheckpoint [0-9a-f]{12}\b", "checkpoint <start of its id>")
}

/// Every command that takes a session refuses a bad one in the same ways.
pub(super) fn shows_how_a_session_is_refused(shown: &Shown<'_>, command: &str) {
    let name = |case: &str| format!("sessions-{command}/{case}");
    shown.once(&name("unknown-session"), &["sessions", command, "99999999"]);
    shown.once(&name("ambiguous-session"), &["sessions", command, "5e55"]);
    shown.once(&name("no-session"), &["sessions", command]);
    shown.once(&name("unknown-flag"), &["sessions", command, "--colour"]);
}

#[test]
fn ls_lists_conversations_of_all_stores() {
    let stage = stores::stage();
    let shown = shown_of(&stage);
    shown.command("sessions-ls/all", &["sessions", "ls", "--all"]);
    shown.command("sessions-ls/of-the-workspace", &["sessions", "ls", "-C", "."]);
    shown.command("sessions-ls/limit", &["sessions", "ls", "--limit", "2"]);
    shown.human("sessions-ls/quiet", &["sessions", "ls", "--quiet"]);
    shown.command("sessions-ls/one-store", &["sessions", "ls", "--store", "ide"]);
    shown.command("sessions-ls/none", &["sessions", "ls", "--until", "2019-01-01"]);
    shown.once("sessions-ls/bad-store", &["sessions", "ls", "--store", "paper"]);
    shown.once("sessions-ls/bad-time", &["sessions", "ls", "--since", "yesteryear"]);
    shown.once("sessions-ls/no-export", &["sessions", "ls", "--from", "missing.json"]);
    shown.once("sessions-ls/no-workspace", &["sessions", "ls", "-C", "nowhere"]);
}

#[test]
fn ls_lists_nothing_without_stores() {
    let stage = Stage::of_fixed_width();
    let shown = shown_of(&stage);
    shown.command("sessions-ls/empty", &["sessions", "ls"]);
    shown.once("sessions-show/empty", &["sessions", "show", "-"]);
    shown.command("sessions-stores/empty", &["sessions", "stores"]);
    shown.command("sessions-stats/empty", &["sessions", "stats"]);
    shown.command("sessions-search/empty", &["sessions", "search", "anything"]);
}

#[test]
fn show_shows_a_conversation_of_every_store() {
    let stage = stores::stage();
    let shown = shown_of(&stage);
    shown.command("sessions-show/cli", &["sessions", "show", PARSER]);
    shown.human("sessions-show/cli-full", &["sessions", "show", PARSER, "--full"]);
    shown.human("sessions-show/cli-last", &["sessions", "show", PARSER, "--last", "2"]);
    shown.command("sessions-show/cut-off", &["sessions", "show", CUT_OFF]);
    shown.command("sessions-show/acp", &["sessions", "show", ACP]);
    shown.command("sessions-show/ide", &["sessions", "show", IDE]);
    shown.command("sessions-show/transcript", &["sessions", "show", TRANSCRIPT]);
    shown.command("sessions-show/sdk", &["sessions", "show", "translator"]);
    shown.once("sessions-show/raw", &["sessions", "show", IDE, "--raw"]);
    shows_how_a_session_is_refused(&shown, "show");
}

#[test]
fn search_finds_what_was_said() {
    let stage = stores::stage();
    let shown = shown_of(&stage);
    shown.command("sessions-search/word", &["sessions", "search", "line"]);
    shown.command("sessions-search/phrase", &["sessions", "search", "\"did not answer\""]);
    shown.human("sessions-search/regex", &["sessions", "search", "--regex", "E\\d{4}"]);
    shown.command("sessions-search/nothing", &["sessions", "search", "hologram"]);
    shown.once("sessions-search/bad-regex", &["sessions", "search", "--regex", "(("]);
    shown.once("sessions-search/no-pattern", &["sessions", "search"]);
}

#[test]
fn stores_lists_what_was_found() {
    let stage = stores::stage();
    shown_of(&stage).command("sessions-stores/all", &["sessions", "stores"]);
}

#[test]
fn stats_counts_messages_and_tools() {
    let stage = stores::stage();
    let shown = shown_of(&stage);
    shown.command("sessions-stats/all", &["sessions", "stats", "--all"]);
    shown.command("sessions-stats/none", &["sessions", "stats", "--until", "2019-01-01"]);
}

#[test]
fn export_writes_a_conversation_in_every_format() {
    let stage = stores::stage();
    let shown = shown_of(&stage);
    for format in ["md", "json", "jsonl", "html"] {
        let args = ["sessions", "export", PARSER, "--format", format];
        shown.once(&format!("sessions-export/{format}"), &args);
    }
    shown.once("sessions-export/to-a-file", &["sessions", "export", PARSER, "-o", "talk.md"]);
    shown.once("sessions-export/file-is-there", &["sessions", "export", PARSER, "-o", "talk.md"]);
    shown.once("sessions-export/many", &["sessions", "export", "--all", "-o", "talks/"]);
    shown.once("sessions-export/bad-format", &["sessions", "export", PARSER, "-f", "pdf"]);
    shows_how_a_session_is_refused(&shown, "export");
}

#[test]
fn at_finds_the_conversations_that_led_to_a_commit() {
    let stage = stores::with_commits();
    let shown = shown_of(&stage);
    shown.command("sessions-at/head", &["sessions", "at", "HEAD"]);
    shown.command("sessions-at/range", &["sessions", "at", "HEAD~1..HEAD"]);
    shown.command("sessions-at/none", &["sessions", "at", "HEAD~1"]);
    shown.human("sessions-at/journal", &["sessions", "at", "HEAD", "--journal"]);
    shown.once("sessions-at/unknown-commit", &["sessions", "at", "v9"]);
    shown.once("sessions-at/no-commit", &["sessions", "at"]);
    shown.command("sessions-between/two", &["sessions", "between", "HEAD~1", "HEAD"]);
    shown.once("sessions-between/unknown-commit", &["sessions", "between", "v8", "v9"]);
    shown.once("sessions-between/one-commit", &["sessions", "between", "HEAD"]);
}

#[test]
fn at_needs_a_repository() {
    let stage = stores::stage();
    let shown = shown_of(&stage);
    shown.once("sessions-at/no-repository", &["sessions", "at", "HEAD"]);
    shown.once("sessions-between/no-repository", &["sessions", "between", "a", "b"]);
}

#[test]
fn verify_checks_sessions() {
    let stage = stores::stage();
    let shown = shown_of(&stage);
    shown.command("sessions-verify/good", &["sessions", "verify", PARSER]);
    shown.command("sessions-verify/cut-off", &["sessions", "verify", CUT_OFF]);
    shown.command("sessions-verify/all", &["sessions", "verify", "--all"]);
    shows_how_a_session_is_refused(&shown, "verify");
}

#[test]
fn gc_says_what_could_be_dropped() {
    let stage = stores::stage();
    let shown = shown_of(&stage);
    shown.command("sessions-gc/all", &["sessions", "gc"]);
    shown.command("sessions-gc/one", &["sessions", "gc", PARSER]);
    shown.once("sessions-gc/unknown-session", &["sessions", "gc", "99999999"]);
}
