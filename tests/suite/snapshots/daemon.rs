//! `daemon`: start, status, replace, stop, and the errors of each.

use std::fs;

use super::past;
use super::{Form, Shown};
use crate::daemon::life::start_other;
use crate::stage::Stage;
use crate::stage::daemon_stage::DaemonStage;

fn shown(stage: &Stage) -> Shown<'_> {
    Shown::of(stage)
        .also(r"\bfor \d+ (?:s|min)\b", "for <age>")
        .also(r"\bcaretaker \d+\.\d+\.\d+\b", "caretaker <version>")
        .also(r#"("version": ?)"[^"]*""#, r#"$1"<version>""#)
        .also(r#"("started": ?)\d+"#, "$1<ticks>")
        .also(r"\b127\.0\.0\.1:\d{5}\b", "127.0.0.1:<port>")
        .also(r"\bdaemon-[0-9a-f]{8}\.sock\b", "daemon-<place>.sock")
}

/// Makes a stage with past runs, two of them queued, and a directory for sockets.
fn stage() -> DaemonStage {
    let stage = past::queued();
    fs::create_dir(stage.root().join("run")).unwrap();
    DaemonStage::on(stage, 2)
}

/// A daemon's log from 2020. A live daemon cleans up while it becomes ready, so the order of its lines varies.
const LOG: &str = "\
2020-09-13T12:26:40.000001Z  INFO caretaker_daemon::serve: cleaned up after dead runs n_dead=0
2020-09-13T12:26:40.000002Z  INFO caretaker_daemon::serve: ready pid=7 socket=/run/caretaker/daemon.sock n_adopted=2 n_lost=1
2020-09-13T12:26:50.000003Z  INFO caretaker_daemon::serve: stopping; live runs continue
";

#[test]
fn without_a_daemon_there_is_nothing_to_ask_or_stop() {
    let stage = past::queued();
    let shown = shown(&stage);
    shown.command("daemon-status/none", &["daemon", "status"]);
    shown.command("daemon-stop/none", &["daemon", "stop"]);
    shown.once("daemon-logs/none", &["daemon", "logs"]);
    shown.once("daemon/no-command", &["daemon"]);
    shown.once("daemon/unknown-command", &["daemon", "reload"]);
    for (name, flags) in [
        ("start/bad-listen", &["start", "--listen", "here"][..]),
        ("start/not-loopback", &["start", "--listen", "0.0.0.0:0"]),
        ("start/unknown-flag", &["start", "--port", "1"]),
        ("restart/not-loopback", &["restart", "--listen", "0.0.0.0:0"]),
        ("stop/unknown-flag", &["stop", "--now"]),
        ("status/unknown-flag", &["status", "--all"]),
        ("logs/bad-count", &["logs", "--last", "all"]),
    ] {
        shown.once(&format!("daemon-{name}"), &[&["daemon"], flags].concat());
    }
    fs::write(stage.root().join("state/daemon.log"), LOG).unwrap();
    shown.human("daemon-logs/some", &["daemon", "logs"]);
    shown.once("daemon-logs/last", &["daemon", "logs", "--last", "1"]);
    stage.configure("[queue]\ncap = \"many\"\n");
    shown.once("daemon-start/bad-config", &["daemon", "start"]);
}

#[test]
fn a_daemon_is_started_queried_and_stopped() {
    let stage = stage();
    let shown = shown(&stage);
    for (form, of_form) in [
        ("60", Form::Terminal { columns: 60 }),
        ("json", Form::Json),
        ("100", Form::Terminal { columns: 100 }),
    ] {
        let with = |command| {
            let flags: &[&str] = if matches!(of_form, Form::Json) { &["--json"] } else { &[] };
            [&["daemon", command], flags].concat()
        };
        shown.show(&format!("daemon-start/done.{form}"), &with("start"), of_form);
        shown.show(&format!("daemon-stop/done.{form}"), &with("stop"), of_form);
    }
    stage.start_daemon();
    shown.command("daemon-start/runs-already", &["daemon", "start"]);
    shown.once("daemon-start/no-listen", &["daemon", "start", "--listen", "127.0.0.1:1"]);
    shown.command("daemon-status/idle", &["daemon", "status"]);
    shown.command("daemon-restart/done", &["daemon", "restart"]);
    shown.once("daemon-restart/listening", &["daemon", "restart", "--listen", "127.0.0.1:0"]);
    shown.once("daemon-start/listens-elsewhere", &["daemon", "start", "--listen", "127.0.0.1:1"]);
    let config = stage.home().join(".config/caretaker/config.toml");
    let config = fs::read_to_string(config).unwrap();
    stage.configure(&format!("{config}[budgets.day]\ntokens = \"5M\"\ntime = \"8h\"\n"));
    shown.command("daemon-status/listening", &["daemon", "status"]);
}

#[test]
fn a_daemon_of_another_version_is_replaced_or_left_alone() {
    let stage = stage();
    let shown = shown(&stage);
    let mut newer = start_other(&stage, "99");
    for command in ["start", "restart"] {
        shown.once(&format!("daemon-{command}/newer"), &["daemon", command]);
    }
    shown.command("daemon-status/newer", &["daemon", "status"]);
    shown.once("queue/newer-daemon", &["queue"]);
    stage.output(&["daemon", "stop"]);
    newer.wait().unwrap();
    let mut older = start_other(&stage, "0");
    shown.command("daemon-status/older", &["daemon", "status"]);
    shown.once("queue/older-daemon", &["queue"]);
    shown.once("daemon-start/older", &["daemon", "start"]);
    older.wait().unwrap();
}
