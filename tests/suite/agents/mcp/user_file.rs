//! The user's own MCP servers, in a run that asked for all of them.

use std::path::Path;

use pretty_assertions::assert_eq;
use serde_json::json;

use super::{KEY, latest_journal, server, stage_with};
use crate::stage::{assert_exit, stderr};

/// Returns true if a file below this directory contains the key.
fn is_written_below(directory: &Path) -> bool {
    std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap()).any(|entry| {
        let kind = entry.file_type().unwrap();
        let holds = |path| {
            let content = std::fs::read(path).unwrap();
            content.windows(KEY.len()).any(|window| window == KEY.as_bytes())
        };
        (kind.is_dir() && is_written_below(&entry.path()))
            || (kind.is_file() && holds(entry.path()))
    })
}

#[test]
fn on_request_the_agent_reaches_the_users_servers_and_their_keys_stay_with_the_user() {
    let stage =
        stage_with(json!({"notes": server("notes"), "slack": {"url": "https://slack.invalid"}}));
    let workspace = stage.workspace();
    let words = workspace.to_str().unwrap().split(|letter: char| !letter.is_alphanumeric());
    let slug: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let project = stage.home().join(".cursor/projects").join(slug.join("-"));
    std::fs::create_dir_all(&project).unwrap();
    std::fs::write(project.join("mcp-disabled.json"), r#"["slack"]"#).unwrap();

    let script = "mcp notes tell {}\nmcp slack tell {}\nshell cat .cursor/mcp.json\nsay done";
    let output = stage.play(script, &["--user-mcp"]);
    assert_exit(&output, 0);
    assert_eq!(
        stderr(&output).lines().filter(|line| line.starts_with("note:")).collect::<Vec<_>>(),
        [
            "note: the agent has your own MCP servers: notes",
            "note: switched off for this workspace: slack",
            "note: Cursor is said to use only 40 MCP tools: 12 are known, and notes may have more",
        ]
    );
    let journal = latest_journal(&stage);
    assert!(journal.contains("told by notes: [redacted]"), "{journal}");
    assert!(
        !journal.contains("slack.invalid"),
        "the agent sees a server that is switched off: {journal}"
    );
    assert!(!is_written_below(&stage.runs()));
}

#[test]
fn the_users_servers_are_out_of_reach_unless_asked_for() {
    let stage = stage_with(json!({"notes": server("notes")}));
    let output = stage.play("mcp notes tell {}\nsay done", &[]);
    assert_exit(&output, 0);
    assert!(!latest_journal(&stage).contains("told by notes"));
}

#[test]
fn the_configuration_can_ask_for_every_run() {
    let stage = stage_with(json!({"notes": server("notes")}));
    stage.configure("min_free = '0'\nuser_mcp = true\n");
    let output = stage.play("mcp notes tell {}\nsay done", &[]);
    assert_exit(&output, 0);
    assert!(latest_journal(&stage).contains("told by notes: [redacted]"));
}

#[test]
fn a_run_without_usable_servers_is_refused_before_anything_exists() {
    for (content, code, words) in [
        (None, 3, "you have no MCP servers"),
        (Some("not json"), 2, "is not valid JSON"),
        (Some(r#"{"mcpServers":{"half":{"args":[]}}}"#), 2, "half"),
    ] {
        let stage = stage_with(json!({}));
        let file = stage.home().join(".cursor/mcp.json");
        match content {
            None => std::fs::remove_file(file).unwrap(),
            Some(content) => std::fs::write(file, content).unwrap(),
        }
        let output = stage.play("say done", &["--user-mcp"]);
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
        assert_eq!(stage.run_ids(), Vec::<String>::new());
    }
}
