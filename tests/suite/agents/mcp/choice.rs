//! MCP servers that a run selects by name, from the user's own file and from the repository's file.

use pretty_assertions::assert_eq;
use serde_json::json;

use super::{Gate, KEY, latest_journal, repository_defines, server, stage_with};
use crate::stage::{assert_exit, stderr};

#[test]
fn a_run_takes_servers_by_name_and_ignores_faults_of_the_others() {
    let stage = stage_with(json!({"notes": server("notes"), "slack": server("slack"), "bad": {}}));
    let script = "mcp notes tell {}\nmcp slack tell {}\nsay done";
    let output = stage.play(script, &["--mcp", "notes"]);
    assert_exit(&output, 0);
    let journal = latest_journal(&stage);
    assert!(journal.contains("told by notes") && !journal.contains("told by slack"), "{journal}");
    // The configuration allows all servers; a name on the command line narrows that.
    stage.configure("min_free = '0'\nuser_mcp = true\n");
    let output = stage.play(script, &["--mcp", "slack"]);
    assert_exit(&output, 0);
    let journal = latest_journal(&stage);
    assert!(journal.contains("told by slack") && !journal.contains("told by notes"), "{journal}");
}

#[test]
fn a_run_with_an_unknown_server_name_is_refused_before_anything_exists() {
    let stage = stage_with(json!({"notes": server("notes"), "caretaker": server("c")}));
    for (flags, code, words) in [
        (&["--mcp", "nobody"][..], 3, "the file has notes, caretaker"),
        (&["--mcp", "caretaker"], 2, "there is already an MCP server called `caretaker`"),
        (&["--mcp-from-repo", "nobody"], 2, "has no server `nobody`"),
        (&["--mcp", "notes", "--user-mcp"], 2, "cannot be used with"),
        (
            &["--mcp", "notes", "--sandbox", "off"],
            2,
            "without a sandbox the agent reads your own files",
        ),
    ] {
        let output = stage.play("say done", flags);
        assert_eq!(output.status.code(), Some(code), "{flags:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(words), "{flags:?}: {}", stderr(&output));
    }
    assert_eq!(stage.run_ids(), Vec::<String>::new());
}

#[test]
fn a_repositorys_server_needs_the_users_approval_of_its_exact_definition() {
    let stage = stage_with(json!({"notes": server("notes")}));
    repository_defines(&stage, &json!({"theirs": server("theirs")}));
    let refused = stage.play("say done", &["--mcp", "theirs"]);
    assert_exit(&refused, 2);
    let said = stderr(&refused);
    assert!(
        said.contains("belongs to the repository, not to you") && said.contains("/bin/sh"),
        "{said}"
    );
    assert!(said.contains("--mcp-from-repo theirs") && !said.contains(KEY), "{said}");
    assert!(stage.run_ids().is_empty());

    let script = "mcp theirs tell {}\nsay done";
    let output = stage.play(script, &["--mcp-from-repo", "theirs"]);
    assert_exit(&output, 0);
    assert!(
        stderr(&output).contains("the repository's MCP server `theirs`"),
        "{}",
        stderr(&output)
    );
    assert!(latest_journal(&stage).contains("told by theirs: [redacted]"));

    // The user allowed only the old definition.
    let run = stage.run_ids().pop().unwrap();
    let spec = std::fs::read_to_string(stage.runs().join(&run).join("spec.json")).unwrap();
    assert!(!spec.contains(KEY), "{spec}");
    repository_defines(
        &stage,
        &json!({"theirs": {"command": "/bin/sh", "args": ["-c", "touch it-ran"]}}),
    );
    let gate = Gate::new(&stage, "gate");
    repository_defines(&stage, &json!({"theirs": server("theirs")}));
    let run = stage.detach("shell cat gate\nsay done", &["--mcp-from-repo", "theirs"]);
    stage.wait_until(&run, |line| line["kind"] == "agent.tool_started");
    assert_eq!(stage.output(&["suspend", &run]).status.code(), Some(0));
    drop(gate);
    repository_defines(
        &stage,
        &json!({"theirs": {"command": "/bin/sh", "args": ["-c", "touch it-ran"]}}),
    );
    let resumed = stage.output(&["resume", "--suspended", "--agent", "simulated"]);
    assert_exit(&resumed, 2);
    assert!(stderr(&resumed).contains("changed after you allowed it"), "{}", stderr(&resumed));
    assert!(!stage.workspace().join("it-ran").exists());
}

#[test]
fn a_repositorys_file_that_is_not_a_plain_file_is_not_read() {
    let stage = stage_with(json!({}));
    std::fs::create_dir_all(stage.workspace().join(".cursor")).unwrap();
    let file = stage.workspace().join(".cursor/mcp.json");
    std::os::unix::fs::symlink(stage.home().join(".cursor/mcp.json"), &file).unwrap();
    let output = stage.play("say done", &["--mcp-from-repo", "notes"]);
    assert_exit(&output, 2);
    std::fs::remove_file(&file).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&file).status().unwrap();
    assert!(made.success());
    let output = stage.play("say done", &["--mcp-from-repo", "notes"]);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("is a FIFO"), "{}", stderr(&output));
    assert!(stage.run_ids().is_empty());
}
