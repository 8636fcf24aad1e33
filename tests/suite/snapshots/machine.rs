//! `daemon`, `login`, `mcp`, `doctor`, `completions` and `man`.

use serde_json::{Value, json};

use super::past::{self, TIDY};
use super::{Form, Shown, output_in};
use crate::daemon_stage::DaemonStage;
use crate::stage::Stage;

/// A stage whose sockets lie in it.
fn with_sockets(stage: Stage) -> DaemonStage {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().mode(0o700).create(stage.root().join("run")).unwrap();
    DaemonStage::on(stage, 2)
}

/// The socket is named after the state directory. A daemon is asked when it is as old as it is.
fn shown_of(stage: &Stage) -> Shown<'_> {
    Shown::live(stage)
        .also(r"daemon-[0-9a-f]{8}\.sock", "daemon-<id>.sock")
        .also(r#"("started": ?)\d+"#, "${1}<ticks>")
        .also(r"pid=\d+", "pid=<pid>")
        .also(r"\bfor \d+ s\b", "for <age>")
        .also(r"caretaker \d+\.\d+\.\d+\b", "caretaker <version>")
        .also(r#"("version": ?)"\d+\.\d+\.\d+""#, r#"$1"<version>""#)
        .also(r"####-##-##T##:##:##\.#+Z", "<time>")
}

fn shows_a_daemon(name: &str, form: Form) {
    let stage = with_sockets(past::queued());
    let shown = shown_of(&stage);
    let flags: &[&str] = if matches!(form, Form::Json) { &["--json"] } else { &[] };
    for (case, args) in [
        ("status-of-none", &["daemon", "status"][..]),
        ("stop-none", &["daemon", "stop"]),
        ("start", &["daemon", "start"]),
        ("start-twice", &["daemon", "start"]),
        ("status", &["daemon", "status"]),
        ("restart", &["daemon", "restart"]),
        ("stop", &["daemon", "stop"]),
    ] {
        shown.show(&format!("daemon/{case}.{name}"), &[args, flags].concat(), form);
    }
}

#[test]
fn daemon_starts_tells_of_itself_and_stops() {
    shows_a_daemon("100", Form::Terminal { columns: 100 });
}

#[test]
fn daemon_says_the_same_on_a_narrow_terminal() {
    shows_a_daemon("60", Form::Terminal { columns: 60 });
}

#[test]
fn daemon_says_it_as_json() {
    shows_a_daemon("json", Form::Json);
}

#[test]
fn daemon_logs_what_it_did() {
    let stage = with_sockets(past::stage());
    let shown = shown_of(&stage);
    shown.once("daemon/no-log", &["daemon", "logs"]);
    stage.start_daemon();
    assert!(stage.output(&["daemon", "stop"]).status.success());
    shown.once("daemon/logs", &["daemon", "logs"]);
    shown.once("daemon/bad-address", &["daemon", "start", "--listen", "example.org"]);
    shown.once("daemon/address-of-others", &["daemon", "start", "--listen", "0.0.0.0:7777"]);
    shown.once("daemon/no-command", &["daemon"]);
    shown.once("daemon/unknown-command", &["daemon", "reload"]);
}

/// Two logins that were replaced in September 2020, of which the first says whose it is.
fn with_logins() -> Stage {
    let stage = past::stage();
    let file = stage.home().join(".config/cursor/auth.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, login("opaque-of-today")).unwrap();
    let token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEiLCJpc3MiOiJodHRwczovL2F1dGhlbnRpY2F0aW9uLmV4YW1wbGUiLCJ0aW1lIjoiMTU5OTkxMzYwMCIsImV4cCI6MTYwMDAwMzYwMCwicmFuZG9tbmVzcyI6Im9uZSJ9.b25l";
    let kept = |id: &str, by: &str, run: Value, content: String| json!({"id": id, "kept_ms": 1_600_000_000_000_u64, "file": file, "by": by, "replaced_by": run, "content": content});
    let shelf = json!({"v": 1, "carried": [], "kept": [
        kept("5b1c7f0e", "agent", Value::Null, login("opaque-0123456789abcdef")),
        kept("5b9d2a41", "user", json!(TIDY), login(token)),
    ]});
    let logins = stage.root().join("state/logins.json");
    std::fs::write(logins, shelf.to_string()).unwrap();
    stage
}

fn login(token: &str) -> String {
    json!({"accessToken": token, "refreshToken": token}).to_string()
}

#[test]
fn login_lists_and_restores_what_agents_replaced() {
    let stage = with_logins();
    let shown = Shown::live(&stage);
    shown.command("login/ls", &["login", "ls"]);
    shown.once("login/unknown", &["login", "restore", "77777777"]);
    shown.once("login/ambiguous", &["login", "restore", "5b"]);
    shown.once("login/no-command", &["login"]);
    shown.on_fresh_stages("login/restore", &["login", "restore"], with_logins);
    shown.on_fresh_stages("login/restore-one", &["login", "restore", "5b1c"], with_logins);
}

#[test]
fn login_has_nothing_to_restore_where_no_agent_replaced_one() {
    let stage = Stage::of_fixed_width();
    let shown = Shown::of(&stage);
    shown.command("login/ls-empty", &["login", "ls"]);
    shown.once("login/restore-nothing", &["login", "restore"]);
}

/// A user with two MCP servers, one of which does not start, and a run.
fn with_servers() -> Stage {
    let stage = Stage::of_fixed_width();
    std::fs::create_dir_all(stage.home().join(".cursor")).unwrap();
    let servers = json!({"mcpServers": {
        "notes": {"command": "/bin/sh", "args": ["-c", "exit 1"], "env": {"KEY": "of-mine"}},
        "remote": {"url": "https://mcp.example.org/sse"},
    }});
    std::fs::write(stage.home().join(".cursor/mcp.json"), servers.to_string()).unwrap();
    assert!(stage.play("say hi", &["--name", "first"]).status.success());
    stage
}

#[test]
fn mcp_shows_the_servers_of_an_agent() {
    let stage = with_servers();
    let shown = Shown::live(&stage);
    shown.command("mcp/show", &["mcp", "show"]);
    shown.command("mcp/show-own", &["mcp", "show", "--user-mcp"]);
    shown.command("mcp/show-run", &["mcp", "show", "first"]);
    shown.once("mcp/show-unknown", &["mcp", "show", "--mcp", "nothing"]);
    shown.once("mcp/show-unknown-run", &["mcp", "show", "no-such-run"]);
    shown.command("mcp/tools", &["mcp", "tools"]);
    shown.command("mcp/tools-own", &["mcp", "tools", "--user-mcp"]);
    shown.once("mcp/no-command", &["mcp"]);
}

#[test]
fn mcp_switches_servers_on_and_off() {
    let stage = with_servers();
    let shown = Shown::live(&stage);
    shown.once("mcp/enable-first", &["mcp", "enable", "first", "notes"]);
    shown.once("mcp/enable-twice", &["mcp", "enable", "first", "notes"]);
    shown.once("mcp/disable", &["mcp", "disable", "first", "notes"]);
    shown.once("mcp/disable-twice", &["mcp", "disable", "first", "notes"]);
    for command in ["enable", "disable"] {
        shown.once(&format!("mcp/{command}-unknown"), &["mcp", command, "first", "nothing"]);
        shown
            .once(&format!("mcp/{command}-unknown-run"), &["mcp", command, "no-such-run", "notes"]);
        shown.once(&format!("mcp/{command}-nothing"), &["mcp", command, "first"]);
    }
    shown.on_fresh_stages("mcp/enable", &["mcp", "enable", "first", "notes"], with_servers);
}

/// What it says of this machine is another on every machine.
#[test]
fn doctor_checks_the_machine() {
    let stage = with_sockets(Stage::of_fixed_width());
    let of_machine = "bubblewrap|sandbox|privileges|limits|disk|clock|agent";
    let line = format!(r"(?m)^[✓!✗] ({of_machine})( +).*$(?:\n {{13}}.*$)*");
    let entry = format!(r#""id": "({of_machine})",[^}}]*"#);
    let shown = Shown::live(&stage)
        .also(&line, "? $1$2<of this machine>")
        .also(&entry, r#""id": "$1", <of this machine> "#)
        .also(r#""ok": (true|false)"#, r#""ok": <of this machine>"#)
        .also(r"\[exit \d+\]", "[exit <of this machine>]");
    shown.piped("doctor/all", &["doctor"]);
    shown.json("doctor/all", &["doctor"]);
    stage.configure("min_fre = 0\n");
    shown.piped("doctor/bad-config", &["doctor"]);
    shown.json("doctor/bad-config", &["doctor"]);
    Shown::of(&stage).once("doctor/unknown-flag", &["doctor", "--fix"]);
}

/// The whole text of each is long, and is made from the help that has snapshots of its own.
#[test]
fn completions_and_manual_pages_are_printed() {
    let stage = Stage::of_fixed_width();
    let shown = Shown::of(&stage).also(r"caretaker \d+\.\d+\.\d+\b", "caretaker <version>");
    shown.once("completions/unknown-shell", &["completions", "tcl"]);
    shown.once("completions/no-shell", &["completions"]);
    for shell in ["bash", "elvish", "fish", "zsh"] {
        let output = output_in(stage.caretaker(&["completions", shell]), Form::Pipe);
        let text = String::from_utf8(output.stdout).unwrap();
        let beginning: Vec<&str> = text.lines().take(12).collect();
        shown.text(&format!("completions/{shell}-begins"), &beginning.join("\n"));
    }
    shown.once("man/caretaker", &["man"]);
    shown.once("man/into-a-directory", &["man", "pages"]);
    let mut pages: Vec<String> = std::fs::read_dir(stage.workspace().join("pages"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort();
    shown.text("man/pages", &pages.join("\n"));
    shown.once("man/into-a-file", &["man", "pages/caretaker.1"]);
}
