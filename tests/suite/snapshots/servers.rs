//! `mcp show`, `enable`, `disable` and `tools`.

use std::fs;

use serde_json::{Value, json};

use super::Shown;
use super::past::{self, QUEUED, TIDY, WATCHER};
use crate::agents::mcp::server;
use crate::stage::Stage;

/// Writes the user's own servers.
fn define(stage: &Stage, servers: &Value) {
    let file = stage.home().join(".cursor/mcp.json");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, json!({"mcpServers": servers}).to_string()).unwrap();
}

fn own_servers() -> Value {
    json!({
        "notes": {"command": "/usr/bin/notes-server", "args": ["--stdio"], "env": {"NOTES_KEY": "hush-hush"}},
        "docs": {"url": "https://docs.test/mcp?key=hush-hush", "headers": {"Authorization": "Bearer quiet-please"}},
    })
}

#[test]
fn mcp_show_prints_what_a_run_would_get() {
    let stage = past::queued();
    let shown = Shown::of(&stage);
    shown.command("mcp-show/own", &["mcp", "show"]);
    shown.command("mcp-show/past", &["mcp", "show", TIDY]);
    shown.once("mcp-show/no-servers", &["mcp", "show", "--user-mcp"]);
    shown.once("mcp-show/unknown-run", &["mcp", "show", "no-such-run"]);
    shown.once("mcp-show/ambiguous-run", &["mcp", "show", "0174"]);
    shown.once("mcp-show/run-and-workspace", &["mcp", "show", TIDY, "-C", "."]);
    shown.once("mcp-show/run-and-servers", &["mcp", "show", TIDY, "--mcp", "notes"]);
    shown.once("mcp-show/no-workspace", &["mcp", "show", "-C", "nowhere"]);
    define(&stage, &own_servers());
    shown.command("mcp-show/of-the-user", &["mcp", "show", "--user-mcp"]);
    shown.command("mcp-show/by-name", &["mcp", "show", "--mcp", "notes"]);
    shown.once("mcp-show/unknown-server", &["mcp", "show", "--mcp", "nobody"]);
    shown.once("mcp-show/not-of-the-repository", &["mcp", "show", "--mcp-from-repo", "notes"]);
    fs::write(stage.home().join(".cursor/mcp.json"), "not json").unwrap();
    shown.once("mcp-show/not-json", &["mcp", "show", "--user-mcp"]);
    shown.once("mcp/no-command", &["mcp"]);
}

#[test]
fn mcp_enable_and_disable_refuse_impossible_changes() {
    let stage = past::queued();
    define(&stage, &own_servers());
    let spec = stage.runs().join(WATCHER).join("spec.json");
    let text = fs::read_to_string(&spec).unwrap();
    fs::write(spec, text.replace("\"profile\": \"default\"", "\"profile\": \"off\"")).unwrap();
    let shown = Shown::of(&stage);
    for command in ["enable", "disable"] {
        for (name, args) in [
            ("unknown-run", &["no-such-run", "notes"][..]),
            ("ambiguous-run", &["0174", "notes"]),
            ("no-server", &[TIDY]),
            ("no-sandbox", &[WATCHER, "notes"]),
            ("queued", &[QUEUED, "notes"]),
            ("forgotten-session", &[TIDY, "notes"]),
        ] {
            shown.once(&format!("mcp-{command}/{name}"), &[&["mcp", command], args].concat());
        }
    }
    shown.once("mcp-show/no-sandbox", &["mcp", "show", WATCHER]);
}

#[test]
fn mcp_disable_takes_servers_away_and_enable_gives_them_back() {
    let stage = Stage::of_fixed_width();
    define(&stage, &own_servers());
    let run = stage.detach("shell sleep 600", &["--name", "worker", "--user-mcp"]);
    stage.wait_until(&run, |line| line["kind"] == "agent.tool_started");
    let shown = Shown::live(&stage);
    let disable = ["mcp", "disable", "worker", "notes"];
    let enable = ["mcp", "enable", "worker", "notes"];
    // Switching off a server that is already off is not an error, and prints the same.
    shown.command("mcp-disable/running", &disable);
    shown.command("mcp-show/running", &["mcp", "show", "worker"]);
    shown.command("mcp-enable/running", &enable);
    shown.once("mcp-disable/unknown-server", &["mcp", "disable", "worker", "nobody"]);
    shown.once("mcp-enable/unknown-server", &["mcp", "enable", "worker", "nobody"]);
    assert!(stage.output(&["kill", "--now", "worker"]).status.success());
    shown.command("mcp-disable/over", &disable);
    shown.command("mcp-show/over", &["mcp", "show", "worker"]);
    shown.once("mcp-disable/over-unknown-server", &["mcp", "disable", "worker", "nobody"]);
    shown.once("mcp-enable/over-unknown-server", &["mcp", "enable", "worker", "nobody"]);
    shown.command("mcp-enable/over", &enable);
}

#[test]
fn mcp_tools_counts_the_tools_of_every_server() {
    let stage = Stage::of_fixed_width();
    let mut many = server("many");
    many["env"]["N_TOOLS"] = json!("3");
    let missing = json!({"command": "/usr/bin/no-such-server-anywhere", "args": []});
    let docs = json!({"url": "https://docs.test/mcp"});
    define(&stage, &json!({"notes": many, "slack": missing, "docs": docs}));
    // Each version of curl words this error differently.
    let shown = Shown::live(&stage).also(r#"curl: [^"\n]*"#, "curl: …");
    shown.command("mcp-tools/some", &["mcp", "tools", "--user-mcp"]);
    for (name, flags) in [
        ("unknown-server", &["--mcp", "nobody"][..]),
        ("no-workspace", &["-C", "nowhere"]),
        ("unknown-profile", &["--profile", "mine"]),
        ("bad-timeout", &["--timeout", "soon"]),
    ] {
        shown.once(&format!("mcp-tools/{name}"), &[&["mcp", "tools"], flags].concat());
    }
}
