//! `run`, `resume`, `kill`, `suspend`, `send`, `answer`, `pin` and `unpin`.

use super::Shown;
use super::past::{self, ASKER, CHANGELOG, CUT_OFF, QUESTION, QUEUED, RUNNING, TIDY, WATCHER};
use super::reading_runs::shows_how_a_run_is_refused;
use crate::stage::Stage;

const SCRIPT: &str = "Tidy the notes.\n```agent\nsay Writing.\nwrite notes.txt <<END\none\ntwo\nEND\nshell exit 3\nsay Done.\n```";
const SESSION: &str = "5e550000-0000-4000-8000-00000000b001";

#[test]
fn run_shows_how_the_agent_works() {
    let own = Stage::of_fixed_width();
    let shown = Shown::live(&own);
    let args = ["run", SCRIPT, "--agent", "simulated", "--name", "tidy"];
    shown.on_fresh_stages("run/good", &args, Stage::of_fixed_width);
    let failing = ["run", "```agent\nfail resource-exhausted\n```", "--agent", "simulated"];
    shown.on_fresh_stages("run/failed", &failing, Stage::of_fixed_width);
}

#[test]
fn run_detaches() {
    let args = ["run", "```agent\nsay hi\n```", "--agent", "simulated", "--detach"];
    let stage = Stage::of_fixed_width();
    let shown = Shown::live(&stage);
    shown.once("run/detached", &args);
    let run = stage.run_ids().pop().unwrap();
    assert!(stage.output(&["wait", &run, "--timeout", "1m"]).status.success());
}

#[test]
fn run_starts_many() {
    let stage = Stage::of_fixed_width();
    let script = |name: &str, order: &str| serde_json::json!({"name": name, "prompt": format!("{name}\n```agent\n{order}\n```")});
    let prompts = [script("good", "say Done."), script("bad", "fail resource-exhausted")];
    let prompts: Vec<String> = prompts.iter().map(ToString::to_string).collect();
    std::fs::write(stage.workspace().join("prompts"), prompts.join("\n")).unwrap();
    let shown = Shown::live(&stage);
    let many =
        ["run", "--each", "prompts", "--in-place", "--agent", "simulated", "--group", "night"];
    shown.once("run/many", &many);
}

#[test]
fn run_refuses_impossible_requests() {
    let stage = past::stage();
    std::fs::write(stage.workspace().join("prompts"), "{\"prompt\":1}\n").unwrap();
    std::fs::write(stage.workspace().join("nothing"), "").unwrap();
    let shown = Shown::live(&stage);
    for (name, flags) in [
        ("no-agent", &["hello"][..]),
        ("no-such-agent", &["hello", "--agent", "/opt/no-such-agent"]),
        ("no-workspace", &["hello", "-C", "nowhere"]),
        ("no-prompt-file", &["--file", "missing.md", "--agent", "simulated"]),
        ("empty-prompt", &["", "--agent", "simulated"]),
        ("prompt-and-file", &["hello", "--file", "prompts"]),
        ("bad-timeout", &["hello", "--timeout", "soon"]),
        ("bad-network", &["hello", "--network", "all"]),
        ("bad-memory", &["hello", "--memory", "lots"]),
        ("bad-count", &["hello", "--max-tool-calls", "many"]),
        ("bad-name", &["hello", "--name", "Not A Name"]),
        ("bad-label", &["hello", "--label", "team"]),
        ("bad-env", &["hello", "--env", "NAME"]),
        ("reserved-env", &["hello", "--agent", "simulated", "--env", "PATH=/x"]),
        ("dangerous-env", &["hello", "--agent", "simulated", "--env", "LD_PRELOAD=x"]),
        ("secret-env", &["hello", "--agent", "simulated", "--env", "CURSOR_API_KEY=x"]),
        ("name-like-an-id", &["hello", "--name", "beef"]),
        ("bad-model", &["hello", "--agent", "simulated", "--model", "a b"]),
        ("bad-mode", &["hello", "--mode", "think"]),
        ("nothing-to-expose", &["hello", "--agent", "simulated", "--expose", "/no/such/tools"]),
        ("workspace-is-a-file", &["hello", "--agent", "simulated", "-C", "prompts"]),
        ("workspace-is-everything", &["hello", "--agent", "simulated", "-C", "/"]),
        ("workspace-is-home", &["hello", "--agent", "simulated", "-C", ".."]),
        ("profile-with-a-path", &["hello", "--agent", "simulated", "--profile", "../x"]),
        ("agent-not-executable", &["hello", "--agent", "./prompts"]),
        ("words-for-the-agent", &["hello", "--agent", "simulated", "--", "words"]),
        ("bad-secret", &["hello", "--agent", "simulated", "--secret", "NAME=word"]),
        ("bad-host", &["hello", "--allow-host", "https://example.org"]),
        ("bad-priority", &["hello", "--priority", "999"]),
        ("bad-session", &["hello", "--session", "mine"]),
        ("unknown-session", &["hello", "--agent", "simulated", "--session", TIDY]),
        ("unknown-profile", &["hello", "--agent", "simulated", "--profile", "mine"]),
        ("no-queue", &["hello", "--agent", "simulated", "--queue"]),
        ("unknown-after", &["hello", "--agent", "simulated", "--after", "no-such-run"]),
        ("no-prompts", &["--agent", "simulated", "--each", "missing"]),
        ("bad-prompts", &["--agent", "simulated", "--each", "prompts", "--in-place"]),
        ("empty-prompts", &["--agent", "simulated", "--each", "nothing", "--in-place"]),
        ("bad-matrix", &["hello", "--agent", "simulated", "--matrix", "colour=red"]),
        ("no-repository", &["hello", "--agent", "simulated", "--worktree"]),
        ("refused-flag", &["hello", "--agent", "simulated", "--", "--resume", "x"]),
        ("forced-in-a-sandbox", &["hello", "--agent", "simulated", "--force"]),
        ("unknown-flag", &["hello", "--colour"]),
    ] {
        shown.once(&format!("run/{name}"), &[&["run"], flags].concat());
    }
}

#[test]
fn resume_continues_a_session() {
    let own = Stage::of_fixed_width();
    let shown = Shown::live(&own);
    let prompt = "Go on.\n```agent\nrecall\nsay Here I am.\n```";
    let begun = || {
        let stage = Stage::of_fixed_width();
        assert!(stage.play("say The first turn.", &["--name", "first"]).status.success());
        stage
    };
    shown.on_fresh_stages(
        "resume/good",
        &["resume", "first", prompt, "--agent", "simulated"],
        begun,
    );
}

#[test]
fn resume_checks_what_a_session_holds() {
    let stage = Stage::of_fixed_width();
    assert!(stage.play("say The first turn.", &["--name", "first"]).status.success());
    Shown::live(&stage).command("resume/check", &["resume", "first", "--check"]);
}

#[test]
fn resume_refuses_impossible_requests() {
    let stage = past::stage();
    let shown = Shown::live(&stage);
    for (name, args) in [
        ("unknown", &["no-such-session", "go on"][..]),
        ("ambiguous", &["0174", "go on"]),
        ("no-session", &[]),
        ("lost-store", &[SESSION, "go on", "--agent", "simulated"]),
        ("run-without-store", &[CHANGELOG, "go on", "--agent", "simulated"]),
        ("none-interrupted", &["--interrupted", "--agent", "simulated"]),
        ("unknown-flag", &[SESSION, "--colour"]),
        ("unknown-as-json", &["no-such-session", "go on", "--json"]),
    ] {
        shown.once(&format!("resume/{name}"), &[&["resume"], args].concat());
    }
}

/// Starts a run, and waits until it is in the middle of a command.
fn busy() -> Stage {
    let stage = Stage::of_fixed_width();
    let run = stage.detach("say Working.\nshell sleep 600", &["--name", "worker"]);
    stage.wait_until(&run, |line| line["kind"] == "agent.tool_started");
    stage
}

#[test]
fn kill_stops_a_run() {
    let own = Stage::of_fixed_width();
    let shown = Shown::live(&own);
    shown.on_fresh_stages("kill/running", &["kill", "worker"], busy);
}

#[test]
fn kill_has_nothing_to_do_for_runs_that_are_over() {
    let stage = past::queued();
    let shown = Shown::live(&stage);
    shown.command("kill/over", &["kill", TIDY]);
    shown.once("kill/lost", &["kill", CUT_OFF]);
    shown.once("kill/queued", &["kill", QUEUED]);
    shows_how_a_run_is_refused(&shown, "kill");
}

#[test]
fn suspend_stops_a_run_for_a_resume() {
    let own = Stage::of_fixed_width();
    let shown = Shown::live(&own);
    shown.on_fresh_stages("suspend/running", &["suspend", "worker"], busy);
}

#[test]
fn suspend_refuses_runs_that_are_over() {
    let stage = past::stage();
    let shown = Shown::live(&stage);
    shown.command("suspend/over", &["suspend", TIDY]);
    shown.command("suspend/twice", &["suspend", CHANGELOG]);
    shown.command("suspend/all-of-none", &["suspend", "--all"]);
    shows_how_a_run_is_refused(&shown, "suspend");
}

#[test]
fn send_leaves_a_message() {
    let stage = past::stage();
    let shown = Shown::live(&stage);
    shown.once("send/empty", &["send", WATCHER, " "]);
    shown.once("send/no-text", &["send", WATCHER]);
    shown.once("send/unknown-run", &["send", "no-such-run", "hello"]);
    shown.once("send/ambiguous-run", &["send", "0174", "hello"]);
    shown.on_fresh_stages("send/over", &["send", WATCHER, "look at the notes"], past::stage);
}

#[test]
fn send_reaches_a_run_that_is_under_way() {
    let (stage, _lock) = past::running();
    Shown::live(&stage).once("send/running", &["send", RUNNING, "look at the notes"]);
}

#[test]
fn answer_answers_a_question() {
    let stage = past::asking();
    let shown = Shown::live(&stage);
    shown.once("answer/several", &["answer", ASKER, "yes"]);
    shown.once("answer/first", &["answer", QUESTION, "the new one"]);
    shown.once("answer/twice", &["answer", QUESTION, "the old one"]);
    shown.once("answer/empty", &["answer", QUESTION, ""]);
    shown.once("answer/unknown", &["answer", "q-00000000", "yes"]);
    shown.once("answer/asks-nothing", &["answer", TIDY, "yes"]);
    shown.once("answer/no-text", &["answer", QUESTION]);
    shown.on_fresh_stages("answer/good", &["answer", QUESTION, "the new one"], past::asking);
}

#[test]
fn pin_keeps_runs() {
    let stage = past::stage();
    let shown = Shown::live(&stage);
    shown.once("pin/one", &["pin", TIDY]);
    shown.once("pin/twice", &["pin", TIDY]);
    shown.once("gc/pinned", &["gc", "--keep", "6"]);
    shown.once("pin/several", &["pin", WATCHER, CUT_OFF]);
    shows_how_a_run_is_refused(&shown, "pin");
    shown.once("unpin/one", &["unpin", TIDY]);
    shown.once("unpin/twice", &["unpin", TIDY]);
    shows_how_a_run_is_refused(&shown, "unpin");
}
