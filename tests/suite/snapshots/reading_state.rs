//! The read-only uses of `diff`, `gc`, `inbox`, `queue`, `group`, `parse`, `sandbox` and `config`.

use super::Shown;
use super::past::{self, PUBLISH, QUEUED, TIDY};
use super::reading_runs::shows_how_a_run_is_refused;
use crate::stage::Stage;
use crate::stage::daemon_stage::DaemonStage;
use crate::stage::programs::checkout;

#[test]
fn diff_shows_what_a_run_changed() {
    let stage = Stage::of_fixed_width();
    std::fs::write(stage.workspace().join("old.txt"), "one\ntwo\nthree\n").unwrap();
    std::fs::write(stage.workspace().join("gone.txt"), "to be removed\n").unwrap();
    let script = "edit old.txt <<END\ntwo\n===\n2\nEND\nwrite new.txt <<END\nfresh\nEND\ndelete gone.txt\nsay Done.";
    assert!(stage.play(script, &["--name", "changer"]).status.success());
    assert!(stage.play("say Nothing to do.", &["--name", "idle"]).status.success());
    let shown = Shown::of(&stage);
    shown.command("diff/changes", &["diff", "changer"]);
    shown.human("diff/stat", &["diff", "changer", "--stat"]);
    shown.command("diff/no-changes", &["diff", "idle"]);
}

#[test]
fn diff_refuses_what_was_not_saved() {
    let stage = past::stage();
    let shown = Shown::of(&stage);
    shown.once("diff/nothing-saved", &["diff", TIDY]);
    shows_how_a_run_is_refused(&shown, "diff");
}

#[test]
fn gc_says_what_would_be_deleted() {
    let stage = past::stage();
    let shown = Shown::live(&stage);
    shown.command("gc/older-than", &["gc", "--older-than", "30d"]);
    shown.command("gc/keep", &["gc", "--keep", "6"]);
    shown.command("gc/nothing-to-do", &["gc", "--keep", "100"]);
    shown.once("gc/no-criterion", &["gc"]);
    shown.once("gc/bad-age", &["gc", "--older-than", "old"]);
    shown.once("gc/bad-count", &["gc", "--keep", "-1"]);
    shown.once("gc/bad-size", &["gc", "--max-size", "10"]);
    shown.once("gc/done", &["gc", "--keep", "6", "--yes"]);
}

#[test]
fn inbox_lists_questions_and_messages() {
    let stage = past::asking();
    let shown = Shown::of(&stage);
    shown.command("inbox/open", &["inbox"]);
    shown.command("ps/questions", &["ps"]);
    shown.command("show/asking", &["show", "asker"]);
    shown.command("tail/asking", &["tail", "asker"]);
}

#[test]
fn inbox_is_empty_without_questions() {
    let stage = past::stage();
    Shown::of(&stage).command("inbox/empty", &["inbox"]);
}

#[test]
fn a_queue_needs_a_daemon() {
    let stage = past::queued();
    let shown = Shown::of(&stage);
    shown.command("queue/no-daemon", &["queue"]);
    shown.command("ps/queued-no-daemon", &["ps"]);
    shown.command("why/queued-no-daemon", &["why", QUEUED]);
    shown.command("show/queued", &["show", QUEUED]);
    shown.human("tail/queued", &["tail", QUEUED]);
    shown.once("queue/pause-no-daemon", &["queue", "pause"]);
    shown.once("queue/unknown-command", &["queue", "stop"]);
    shown.once("queue/bad-cap", &["queue", "cap", "many"]);
}

#[test]
fn queue_shows_what_each_run_waits_for() {
    let stage = DaemonStage::on(past::queued(), 2);
    stage.start_daemon();
    let shown = Shown::of(&stage);
    shown.command("queue/paused", &["queue"]);
    shown.command("ps/queued", &["ps"]);
    shown.command("why/queued", &["why", QUEUED]);
    shown.once("queue/pause-twice", &["queue", "pause"]);
    shown.once("queue/cap", &["queue", "cap", "1"]);
    shown.once("queue/cap-of-a-group", &["queue", "cap", "1", "--group", "nightly"]);
    shown.command("queue/with-caps", &["queue"]);
}

#[test]
fn group_shows_runs_that_belong_together() {
    let stage = past::queued();
    let shown = Shown::of(&stage);
    shown.command("group/ls", &["group", "ls"]);
    shown.command("group/show", &["group", "show", "release"]);
    shown.command("group/wait-over", &["group", "wait", "release"]);
    shown.command("group/budget-none", &["group", "budget", "release"]);
    shown.once("group/budget-set", &["group", "budget", "release", "tokens=5M,time=8h"]);
    shown.command("group/budget", &["group", "budget", "release"]);
    shown.once("group/budget-bad", &["group", "budget", "release", "money=5"]);
    for command in ["show", "wait", "kill", "budget"] {
        shown.once(&format!("group/{command}-unknown"), &["group", command, "weekly"]);
    }
    shown.once("group/no-command", &["group"]);
}

#[test]
fn group_ls_lists_nothing_without_groups() {
    let stage = Stage::of_fixed_width();
    Shown::of(&stage).command("group/ls-empty", &["group", "ls"]);
}

#[test]
fn parse_reads_a_transcript() {
    let stage = Stage::of_fixed_width();
    let stream = stage.workspace().join("run.ndjson");
    let journal = checkout().join("fixtures/streams/partial-output.ndjson");
    std::fs::copy(journal, &stream).unwrap();
    std::fs::write(stage.workspace().join("odd.ndjson"), "{\"type\":\"hologram\"}\nnot json\n\n{")
        .unwrap();
    let shown = Shown::of(&stage);
    shown.command("parse/turn", &["parse", "run.ndjson"]);
    shown.human("parse/turn-text", &["parse", "run.ndjson", "--text"]);
    shown.human("parse/turn-summary", &["parse", "run.ndjson", "--summary"]);
    shown.json("parse/turn-summary", &["parse", "run.ndjson", "--summary"]);
    shown.command("parse/odd", &["parse", "odd.ndjson"]);
    shown.human("parse/odd-summary", &["parse", "odd.ndjson", "--summary"]);
    shown.once("parse/no-file", &["parse", "missing.ndjson"]);
    shown.once("parse/directory", &["parse", "."]);
    shown.once("parse/text-and-json", &["parse", "run.ndjson", "--text", "--json"]);
    shown.once("parse/text-and-summary", &["parse", "run.ndjson", "--text", "--summary"]);
}

#[test]
fn config_prints_every_setting() {
    let stage = Stage::of_fixed_width();
    let shown = Shown::of(&stage);
    shown.human("config/all", &["config"]);
    shown.once("config/unknown-flag", &["config", "--json"]);
    stage.configure("min_fre = 0\n");
    shown.once("config/unknown-key", &["run", "hello"]);
    stage.configure("min_free = [\n");
    shown.once("config/not-toml", &["run", "hello"]);
}

#[test]
fn net_log_lists_the_hosts_a_run_tried_to_reach() {
    let stage = past::stage();
    let shown = Shown::of(&stage);
    shown.command("sandbox-net-log/nothing", &["sandbox", "net-log", TIDY]);
    shown.once("sandbox-net-log/unknown-run", &["sandbox", "net-log", "no-such-run"]);
    shown.once("sandbox-net-log/lost-flag", &["sandbox", "net-log", PUBLISH, "--follow"]);
}

/// The profile leaves out paths that only some machines have.
const OF_EVERY_MACHINE: &str = r#"
extends = "default"
description = "what every machine has"
[system]
read_only = ["!/nix/store"]
links = ["!/lib", "!/lib32", "!/lib64", "!/libx32", "!/sbin"]
etc = [
    "!/etc/alternatives", "!/etc/ssl/certs", "!/etc/ca-certificates/extracted", "!/etc/ssl/cert.pem",
    "!/etc/ssl/openssl.cnf", "!/etc/pki/ca-trust", "!/etc/pki/tls/certs", "!/etc/pki/tls/cert.pem",
    "!/etc/pki/tls/openssl.cnf", "!/etc/crypto-policies", "!/etc/ld.so.cache", "!/etc/ld.so.conf",
    "!/etc/ld.so.conf.d", "!/etc/localtime", "!/etc/services", "!/etc/protocols", "!/etc/gai.conf",
    "!/etc/java-*-openjdk",
]
[limits]
memory = "4G"
"#;

#[test]
fn sandbox_explain_lists_the_parts_of_a_sandbox() {
    let stage = Stage::of_fixed_width();
    let profiles = stage.home().join(".config/caretaker/profiles");
    std::fs::create_dir_all(&profiles).unwrap();
    std::fs::write(profiles.join("plain.toml"), OF_EVERY_MACHINE).unwrap();
    std::fs::write(profiles.join("wrong.toml"), "extends = \"default\"\n[network]\nmod = 1\n")
        .unwrap();
    let shown = Shown::live(&stage)
        .also(r"/tmp/caretaker-\d+/", "<runtime>/caretaker/")
        .also(r#"enforced by [a-z0-9 ()-]+"#, "enforced by <what this machine has>");
    let explain = ["sandbox", "explain", "--agent", "simulated", "--profile"];
    shown.piped("sandbox-explain/plain", &[&explain[..], &["plain"]].concat());
    shown.json("sandbox-explain/plain", &[&explain[..], &["plain"]].concat());
    shown.once("sandbox-explain/no-profile", &[&explain[..], &["mine"]].concat());
    shown.once("sandbox-explain/wrong-profile", &[&explain[..], &["wrong"]].concat());
    shown.once("sandbox-explain/bad-network", &["sandbox", "explain", "--network", "all"]);
    shown.once("sandbox-explain/no-workspace", &["sandbox", "explain", "-C", "nowhere"]);
}
