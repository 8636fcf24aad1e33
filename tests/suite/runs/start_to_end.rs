//! Whole runs: launch, sandbox, journal, end.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::stage::{Stage, assert_exit, stderr};

#[test]
fn a_run_leaves_the_edits_the_store_the_journal_and_nothing_else() {
    let stage = Stage::new();
    let script = "say Writing.\nwrite hello.txt <<END\nHello.\nEND\nshell cat hello.txt\nsay Done.";
    let output = stage.play(script, &[]);
    assert_exit(&output, 0);
    assert_eq!(std::fs::read_to_string(stage.workspace().join("hello.txt")).unwrap(), "Hello.\n");
    let left: Vec<_> = std::fs::read_dir(stage.workspace())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["hello.txt"], "no litter in the workspace");

    let run = stage.run_ids().pop().unwrap();
    let journal = stage.journal(&run);
    let session = journal[0].line["run"]["session"].as_str().unwrap();
    let bucket = cursor_home::WorkspacePath::new(&stage.workspace()).unwrap().bucket();
    let store = stage.home().join(".cursor/chats").join(bucket).join(session).join("store.db");
    assert!(store.is_file(), "no store at {}", store.display());
    let ended = stage.ended();
    assert_eq!((&ended["outcome"], &ended["exit_code"]), (&json!("succeeded"), &json!(0)));
    let checkpoint = &journal[journal.len() - 2].line["run"];
    assert_eq!(
        (&checkpoint["kind"], &checkpoint["resumable"]),
        (&json!("checkpoint"), &json!("yes"))
    );
    let numbers: Vec<u64> = journal.iter().map(|entry| entry.seq).collect();
    assert_eq!(numbers, (1..=journal.len() as u64).collect::<Vec<_>>());
    stage.assert_no_survivors("after the run");
}

/// Writes an agent that ignores the prompt and prints a file.
fn printing_agent(stage: &Stage, content: &[u8]) -> String {
    let versions = stage.home().join(".local/share/cursor-agent/versions/2026.10.01-abc1234");
    std::fs::create_dir_all(&versions).unwrap();
    std::fs::write(versions.join("output"), content).unwrap();
    let program = versions.join("cursor-agent");
    std::fs::write(&program, "#!/bin/sh\ncat > /dev/null\nexec cat \"$(dirname \"$0\")/output\"\n")
        .unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let bin = stage.home().join(".local/bin");
    std::fs::create_dir_all(&bin).unwrap();
    let link = bin.join("cursor-agent");
    std::os::unix::fs::symlink(&program, &link).unwrap();
    link.to_str().unwrap().to_owned()
}

#[test]
fn an_installed_agent_behind_a_link_is_pinned_and_every_byte_it_prints_is_kept() {
    let stage = Stage::new();
    let mut content = Vec::new();
    content
        .extend_from_slice(b"{\"type\":\"system\",  \"subtype\":\"init\",\"caf\xc3\xa9\":1}\r\n");
    content.extend_from_slice(b"(node:1) Warning\n\n\xff\xfe not text\n");
    content.extend_from_slice(b"\xEF\xBB\xBF{\"type\":\"user\"}\n");
    content.extend_from_slice(&[b"{\"x\":\"".as_slice(), &[b'y'; 17 << 20], b"\"}\n"].concat());
    content.extend_from_slice(
        b"{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"\"}\n",
    );
    let agent = printing_agent(&stage, &content);
    let output = stage
        .caretaker(&["run", "--agent", &agent, "go"])
        .env("CURSOR_API_KEY", "any")
        .output()
        .unwrap();
    assert_exit(&output, 0);

    let run = stage.run_ids().pop().unwrap();
    let created = &stage.journal(&run)[0].line["run"];
    let pinned = created["agent"].as_str().unwrap();
    assert!(pinned.ends_with("versions/2026.10.01-abc1234/cursor-agent"), "{pinned}");

    let raw = stage.output(&["tail", &run, "--raw"]);
    let printed: Vec<&[u8]> = content.split(|byte| *byte == b'\n').collect();
    let kept: Vec<&[u8]> = raw.stdout.split(|byte| *byte == b'\n').collect();
    for (number, (kept, printed)) in kept.iter().zip(&printed).enumerate() {
        if printed.len() > 16 << 20 {
            let cut = stage.journal(&run);
            let cut = cut.iter().find_map(|entry| entry.line.get("agent_cut")).unwrap();
            assert_eq!(cut["length"], json!(printed.len()));
        } else {
            assert_eq!(kept, printed, "line {number}");
        }
    }
    assert_eq!(kept.len(), printed.len());
}

#[test]
fn a_session_of_another_workspace_is_not_started_again_here() {
    let stage = Stage::new();
    let session = stage.begin_session();
    let other = stage.home().join("other");
    std::fs::create_dir(&other).unwrap();
    let flags = ["--session", &session, "--workspace", other.to_str().unwrap()];
    let output = stage.play("recall", &flags);
    assert_exit(&output, 6);
    assert_eq!(stage.run_ids().len(), 1);
}

#[test]
fn a_second_run_on_a_session_or_workspace_waits_or_is_refused_with_the_first_runs_id() {
    let stage = Stage::new();
    let session = &stage.begin_session();
    let first = stage.run_ids();
    let holder = stage.detach("shell sleep 60", &["--session", session]);
    stage.wait_for(&holder, |line| line["kind"] == "agent.tool_started");
    let inner = stage.workspace().join("inner");
    std::fs::create_dir_all(&inner).unwrap();
    for flags in
        [&["--session", session] as &[&str], &[], &["--workspace", inner.to_str().unwrap()]]
    {
        let output = stage.play("say never", flags);
        assert_eq!(output.status.code(), Some(4), "{flags:?}: {}", stderr(&output));
        assert!(
            stderr(&output).contains(&holder),
            "{flags:?} names the holder: {}",
            stderr(&output)
        );
    }
    let known = [first, vec![holder.clone()]].concat();
    assert_eq!(stage.run_ids(), known, "a refused run leaves nothing behind");
    let sessions = std::fs::read_dir(stage.root().join("state/sessions")).unwrap().count();
    assert_eq!(sessions, 1, "not even an empty session");

    let waiting = stage.start_play("say my turn", &["--wait"]);
    let queued = loop {
        if let Some(run) = stage.run_ids().into_iter().find(|run| !known.contains(run)) {
            break run;
        }
        std::thread::yield_now();
    };
    stage.wait_for(&queued, |line| line["kind"] == "run.waiting");
    assert!(stage.output(&["kill", &holder]).status.success());
    let output = waiting.wait_with_output().unwrap();
    assert_exit(&output, 0);
    assert!(String::from_utf8_lossy(&output.stdout).contains("my turn"));
}

#[test]
fn only_one_of_many_runs_gets_the_same_name() {
    let stage = Stage::new();
    let workspaces: Vec<_> = (0..6).map(|n| stage.home().join(format!("work-{n}"))).collect();
    let asking: Vec<_> = workspaces
        .iter()
        .map(|workspace| {
            std::fs::create_dir(workspace).unwrap();
            let flags = ["--name", "wanted", "--workspace", workspace.to_str().unwrap()];
            stage.start_play("shell sleep 60", &[&["--detach"], &flags[..]].concat())
        })
        .collect();
    let answers: Vec<_> =
        asking.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    let got: Vec<_> = answers.iter().filter(|output| output.status.success()).collect();
    assert_eq!(got.len(), 1);
    let holder = String::from_utf8_lossy(&got[0].stdout).trim().to_owned();
    for output in answers.iter().filter(|output| !output.status.success()) {
        assert_eq!(output.status.code(), Some(4), "{}", stderr(output));
        assert!(stderr(output).contains(&holder), "{}", stderr(output));
    }
    assert_eq!(stage.run_ids(), [holder]);
    assert!(stage.output(&["kill", "--now", "wanted"]).status.success());
}

#[test]
fn a_run_whose_prompt_is_gone_says_so_and_asks_the_agent_nothing() {
    let stage = Stage::new();
    let holder = stage.detach("shell sleep 60", &[]);
    let waiting = stage.start_play("say my turn", &["--wait"]);
    let queued = loop {
        if let Some(run) = stage.run_ids().into_iter().find(|run| *run != holder) {
            break run;
        }
        std::thread::yield_now();
    };
    stage.wait_for(&queued, |line| line["kind"] == "run.waiting");
    std::fs::remove_file(stage.runs().join(&queued).join("prompt")).unwrap();
    assert!(stage.output(&["kill", "--now", &holder]).status.success());
    let output = waiting.wait_with_output().unwrap();
    assert_exit(&output, 125);
    let ended = stage.ended();
    assert_eq!(ended["outcome"], "supervisor_failed");
    assert!(ended["why"].as_str().unwrap().contains("the prompt cannot be read"), "{ended}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("the prompt cannot be read"));
}

#[test]
fn a_last_line_that_the_agent_did_not_end_is_kept_as_it_was() {
    let stage = Stage::new();
    let content = b"{\"type\":\"system\",\"subtype\":\"init\"}\n{\"type\":\"assis";
    let agent = printing_agent(&stage, content);
    let output = stage
        .caretaker(&["run", "--agent", &agent, "go"])
        .env("CURSOR_API_KEY", "any")
        .output()
        .unwrap();
    assert_exit(&output, 5);
    assert_eq!(stage.output(&["tail", "-", "--raw"]).stdout, content);
}

#[test]
fn the_agent_reaches_our_tools_through_mcp_json_and_cannot_change_it() {
    let stage = Stage::new();
    let script = "\
mcp caretaker whoami {}
shell echo EVIL > .cursor/mcp.json; rm -f .cursor/mcp.json; mv .cursor .old; mkdir .cursor; rm -rf .cursor; ln -sfn /tmp .cursor; umount .cursor; true
shell cat .cursor/mcp.json
say done";
    let output = stage.play(script, &[]);
    assert_exit(&output, 0);
    let run = stage.run_ids().pop().unwrap();
    let journal = stage.journal(&run);
    let text = std::fs::read_to_string(stage.journal_path(&run)).unwrap();
    let call = journal.iter().find(|entry| entry.line["run"]["kind"] == "mcp_call").unwrap();
    assert_eq!(call.line["run"]["tool"], "whoami");
    assert!(text.contains(&format!("\\\"run\\\":\\\"{run}\\\"")) || text.contains(&run), "{text}");
    let shells: Vec<&Value> = journal
        .iter()
        .filter_map(|entry| {
            entry.line["agent"]["tool_call"]["shellToolCall"]["result"].get("success")
        })
        .collect();
    let shown = shells.last().unwrap()["stdout"].as_str().unwrap();
    assert!(shown.contains("mcpServers") && !shown.contains("EVIL"), "{shown}");
    assert!(!stage.workspace().join(".cursor").exists());
    assert!(!stage.workspace().join(".old").exists());
}

#[test]
fn a_hostile_dot_cursor_is_refused_before_anything_is_created() {
    let victim = tempfile::tempdir().unwrap();
    let target = format!("/oldroot{}", victim.path().display());
    type Shape<'a> = (&'static str, &'a dyn Fn(&Path));
    let shapes: [Shape<'_>; 5] = [
        ("a link out", &|workspace| {
            std::os::unix::fs::symlink(&target, workspace.join(".cursor")).unwrap()
        }),
        ("a file", &|workspace| std::fs::write(workspace.join(".cursor"), "").unwrap()),
        ("a FIFO", &|workspace| {
            let made = Command::new("mkfifo").arg(workspace.join(".cursor")).status().unwrap();
            assert!(made.success());
        }),
        ("a linked mcp.json", &|workspace| {
            std::fs::create_dir(workspace.join(".cursor")).unwrap();
            let inside = format!("{target}/x");
            std::os::unix::fs::symlink(inside, workspace.join(".cursor/mcp.json")).unwrap();
        }),
        ("mcp.json as a directory", &|workspace| {
            std::fs::create_dir_all(workspace.join(".cursor/mcp.json")).unwrap();
        }),
    ];
    for (shape, make) in shapes {
        let stage = Stage::new();
        make(&stage.workspace());
        let output = stage.play("say never", &[]);
        assert!(!output.status.success(), "{shape}");
        assert!(stderr(&output).contains(".cursor"), "{shape}: {}", stderr(&output));
        assert_eq!(stage.run_ids(), Vec::<String>::new(), "{shape}");
        assert!(!stage.home().join(".cursor").exists(), "{shape}: no chats were made");
        assert_eq!(std::fs::read_dir(victim.path()).unwrap().count(), 0, "{shape}");
    }
}

#[test]
fn the_agent_can_commit_and_neither_hooks_nor_our_own_files_are_touched() {
    let stage = Stage::new();
    let git = |args: &[&str]| {
        let output =
            Command::new("git").args(args).current_dir(stage.workspace()).output().unwrap();
        assert_exit(&output, 0);
        String::from_utf8(output.stdout).unwrap()
    };
    git(&["init", "--quiet"]);
    std::fs::write(stage.workspace().join("a.txt"), "a").unwrap();
    let script = "\
shell git add -A && git commit -qm 'from inside'
shell echo evil > .git/hooks/pre-commit; echo '[core] fsmonitor=evil' >> .git/config; mv .git .git2; true
say done";
    let output = stage.play(script, &[]);
    assert_exit(&output, 0);
    assert_eq!(git(&["log", "--format=%s"]), "from inside\n");
    assert_eq!(git(&["ls-files"]), "a.txt\n");
    assert_eq!(git(&["status", "--porcelain"]), "");
    assert!(!stage.workspace().join(".git/hooks/pre-commit").exists());
    assert!(
        !std::fs::read_to_string(stage.workspace().join(".git/config")).unwrap().contains("evil")
    );
}

#[test]
fn a_prompt_of_ten_megabytes_arrives_whole() {
    let stage = Stage::new();
    stage.configure("min_free = \"0\"\n");
    let mut child = stage
        .caretaker(&["run", "--agent", "simulated", "--file", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut prompt = "x".repeat(10 << 20);
    prompt.push_str("\n```agent\nsay done\n```\n");
    child.stdin.take().unwrap().write_all(prompt.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_exit(&output, 0);
    let run = stage.run_ids().pop().unwrap();
    let sent =
        stage.journal(&run).into_iter().find(|entry| entry.line["run"]["kind"] == "prompt_sent");
    assert_eq!(sent.unwrap().line["run"]["length"], json!(prompt.len()));
}

#[test]
fn the_answer_of_a_detached_run_is_shown_to_people_and_programs() {
    let stage = Stage::new();
    let run = stage.detach("say The answer is 42.", &[]);
    let json = |args: &[&str]| -> Value {
        let output = stage.output(args);
        serde_json::from_slice(&output.stdout).unwrap()
    };
    assert_eq!(json(&["wait", &run, "--json"])["answer"], "The answer is 42.");
    assert_eq!(json(&["show", &run, "--json"])["answer"], "The answer is 42.");
    let shown = stage.output(&["show", &run]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("answer     The answer is 42.\n"), "{shown}");

    // A missing answer is null, not a missing field.
    let run = stage.detach("misbehave no-result\nsay Half of it.", &[]);
    for command in ["wait", "show"] {
        let report = json(&[command, &run, "--json"]);
        assert_eq!(report.get("answer"), Some(&Value::Null), "{report}");
    }
}

#[test]
fn an_answer_is_found_however_much_the_agent_prints_after_it() {
    let stage = Stage::new();
    let mut content = Vec::new();
    content.extend_from_slice(
        b"{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"Early.\"}\n",
    );
    content.extend_from_slice(&b"(node:1) Warning: still here\n".repeat(5000));
    let agent = printing_agent(&stage, &content);
    let output = stage
        .caretaker(&["run", "--detach", "--agent", &agent, "go"])
        .env("CURSOR_API_KEY", "any")
        .output()
        .unwrap();
    let run = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    let report = stage.output(&["wait", &run, "--json"]);
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!((&report["answer"], &report["exit_code"]), (&json!("Early."), &json!(0)));
}
