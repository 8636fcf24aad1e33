//! Whole runs: launched, sandboxed, journalled, ended.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::programs::{self, copy_program};
use crate::stage::{Stage, stderr};

fn kill(signal: &str, pid: u64) {
    let status = Command::new("kill").args([signal, &pid.to_string()]).status().unwrap();
    assert!(status.success());
}

#[test]
fn a_run_leaves_the_edits_the_store_the_journal_and_nothing_else() {
    let stage = Stage::new();
    let script = "say Writing.\nwrite hello.txt <<END\nHello.\nEND\nshell cat hello.txt\nsay Done.";
    let output = stage.play(script, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
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

/// Writes an agent that prints a file, whatever is asked of it.
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
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));

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
fn an_agent_that_never_stops_printing_is_stopped_by_the_clock_and_by_kill() {
    let stage = Stage::new();
    let agent = stage.home().join("printer");
    std::fs::write(&agent, "#!/bin/sh\ntrap '' INT TERM\necho '{\"type\":\"system\",\"subtype\":\"init\"}'\nexec yes '{\"type\":\"thinking\",\"subtype\":\"delta\",\"text\":\"x\"}'\n").unwrap();
    std::fs::set_permissions(&agent, std::fs::Permissions::from_mode(0o755)).unwrap();
    let agent = agent.to_str().unwrap();
    let start = |flags: &[&str]| {
        let args = [&["run", "--agent", agent, "go"], flags].concat();
        stage.caretaker(&args).env("CURSOR_API_KEY", "any").output().unwrap()
    };
    // `wait` looks at the end of the journal only, which is large.
    let outcome = || stage.output(&["wait", "-"]).status.code();
    let run = String::from_utf8(start(&["--detach", "--timeout", "1s"]).stdout).unwrap();
    assert!(!run.is_empty());
    assert_eq!(outcome(), Some(124));

    let run = String::from_utf8(start(&["--detach"]).stdout).unwrap().trim().to_owned();
    stage.wait_until(&run, |line| line["kind"] == "agent.thinking_delta");
    let killed = stage.output(&["kill", "--now", &run]);
    assert!(killed.status.success(), "{}", stderr(&killed));
    assert_eq!(outcome(), Some(130));
    stage.assert_no_survivors("the printer");
}

#[test]
fn a_session_of_another_workspace_is_not_begun_anew_here() {
    let stage = Stage::new();
    let session = stage.begin_session();
    let other = stage.home().join("other");
    std::fs::create_dir(&other).unwrap();
    let flags = ["--session", &session, "--workspace", other.to_str().unwrap()];
    let output = stage.play("recall", &flags);
    assert_eq!(output.status.code(), Some(6), "{}", stderr(&output));
    assert_eq!(stage.run_ids().len(), 1);
}

/// What a misbehaving agent comes to: script, the outcome's fields, the exit code.
fn misbehaviours() -> Vec<(&'static str, Value, i32)> {
    let failed = |class: &str| json!({"outcome":"failed","class":class});
    let succeeded = || json!({"outcome":"succeeded"});
    vec![
        ("misbehave linger\nsay done", succeeded(), 0),
        ("misbehave orphan-worker\nsay done", succeeded(), 0),
        ("misbehave unkillable-child\nsay done", succeeded(), 0),
        ("misbehave noise\nsay done", succeeded(), 0),
        ("misbehave split-utf8\nsay dönë — 漢字", succeeded(), 0),
        ("misbehave stdout-prefix\nsay done", json!({"outcome":"unknown"}), 5),
        ("misbehave unknown-events\nsay done", succeeded(), 0),
        ("misbehave completed-without-started\nsay done", succeeded(), 0),
        ("misbehave reconnect\nsay done", succeeded(), 0),
        ("misbehave long-answer\nsay done", succeeded(), 0),
        ("misbehave giant-line 20\nsay done", succeeded(), 0),
        ("misbehave stderr-flood 8\nsay done", succeeded(), 0),
        ("misbehave flood 2000\nsay done", succeeded(), 0),
        ("misbehave no-result\nsay done", json!({"outcome":"unknown"}), 5),
        ("misbehave background-shell 600\nsay done", json!({"outcome":"unknown"}), 5),
        ("misbehave auth-failure", failed("auth"), 77),
        ("misbehave config-race\nsay done", failed("config_race"), 1),
        ("misbehave model-refused\nsay done", failed("bad_model"), 1),
        ("misbehave reconnect-then-fail\nsay done", failed("network"), 1),
        ("fail resource-exhausted", failed("rate_limited"), 1),
        ("fail usage-limit", failed("usage_limit"), 1),
        ("misbehave kill-mid-line\nsay done", failed("killed"), 1),
        ("misbehave kill-mid-tool\nshell sleep 5", failed("killed"), 1),
        ("misbehave kill-before-first-root\nsay done", failed("killed"), 1),
        ("misbehave crash-mid-tool\nshell sleep 5", failed("other"), 1),
        ("exit 7", failed("other"), 1),
    ]
}

#[test]
fn every_misbehaviour_ends_with_its_outcome_a_sentence_and_no_survivor() {
    let stage = Stage::new();
    for (script, expected, exit_code) in misbehaviours() {
        let output = stage.play(script, &[]);
        let ended = stage.ended();
        assert_eq!(output.status.code(), Some(exit_code), "{script}: {ended} {}", stderr(&output));
        for (key, value) in expected.as_object().unwrap() {
            assert_eq!(&ended[key], value, "{script}: {ended}");
        }
        let show = stage.output(&["show", "-"]);
        let sentence = ended["why"].as_str().unwrap();
        assert!(!sentence.is_empty());
        assert!(String::from_utf8_lossy(&show.stdout).contains(sentence), "{script}");
        stage.assert_no_survivors(script);
    }
}

#[test]
fn limits_are_told_apart() {
    let stage = Stage::new();
    stage.configure("min_free = \"0\"\n[limits]\nstartup = \"1s\"\nidle = \"1s\"\ntool = \"2s\"\n[stop]\nterm_after = \"200ms\"\nkill_after = \"200ms\"\n");
    for (script, flags, limit) in [
        ("misbehave auth-hang", &[] as &[&str], "startup"),
        ("say a\nshell true\nmisbehave silence 30\nsay b", &[], "idle"),
        ("shell sleep 30", &[], "tool"),
        ("misbehave ignore-term\nshell sleep 30", &["--timeout", "1s"], "wall_clock"),
    ] {
        let output = stage.play(script, flags);
        let ended = stage.ended();
        assert_eq!(output.status.code(), Some(124), "{script}: {ended} {}", stderr(&output));
        assert_eq!(
            (&ended["outcome"], &ended["limit"]["limit"]),
            (&json!("timed_out"), &json!(limit)),
            "{ended}"
        );
        stage.assert_no_survivors(script);
    }
}

#[test]
fn kill_stops_a_run_gracefully_and_kill_now_at_once() {
    let stage = Stage::new();
    let started = |line: &Value| line["kind"] == "agent.tool_started";
    let run = stage.detach("shell sleep 60", &[]);
    stage.wait_for(&run, started);
    let output = stage.output(&["kill", &run]);
    assert!(output.status.success(), "{}", stderr(&output));
    let ended = stage.ended();
    assert_eq!((&ended["outcome"], &ended["exit_code"]), (&json!("cancelled"), &json!(130)));

    let run = stage.detach("misbehave ignore-term\nshell sleep 60", &[]);
    stage.wait_for(&run, started);
    assert!(stage.output(&["kill", "--now", &run]).status.success());
    assert_eq!(stage.ended()["outcome"], "cancelled");
    let waited = stage.output(&["wait", &run]);
    assert_eq!(waited.status.code(), Some(130));
    stage.assert_no_survivors("after the run");
}

#[test]
fn without_a_terminal_a_signal_to_the_foreground_stops_the_run() {
    let stage = Stage::new();
    let child = stage.start_play("shell sleep 60", &["--name", "foreground"]);
    let run = loop {
        if let Some(run) = stage.run_ids().pop() {
            break run;
        }
        std::thread::yield_now();
    };
    stage.wait_for(&run, |line| line["kind"] == "agent.tool_started");
    kill("-TERM", u64::from(child.id()));
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert_eq!(stage.ended()["outcome"], "cancelled");
}

/// The pid of the shim, from the lock that it holds.
#[test]
fn after_kill_9_of_the_shim_nothing_lives_nothing_is_lost_and_the_session_can_be_used_again() {
    let stage = Stage::new();
    let session = &stage.begin_session();
    let run = stage.detach("say Before.\nshell sleep 60", &["--session", session]);
    let before = stage.wait_for(&run, |line| line["kind"] == "agent.tool_started");
    kill("-KILL", stage.shim_pid(&run));
    // `wait` returns when nobody holds the run any more.
    assert_eq!(stage.output(&["wait", &run]).status.code(), Some(5));

    let tail = stage.output(&["tail", &run, "--json"]);
    let seen: Vec<Value> = String::from_utf8(tail.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let numbers: Vec<u64> = seen.iter().filter_map(|line| line["seq"].as_u64()).collect();
    assert!(numbers.len() >= before.len());
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    stage.assert_no_survivors("after the run");
    assert!(stage.workspace().join(".cursor").is_dir(), "the dead shim left its mount point");

    let output = stage.play("recall", &["--session", session]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("Before."), "the session remembers");
    assert!(
        !stage.workspace().join(".cursor").exists(),
        "the next run cleaned up after the dead one"
    );
    let ps = stage.output(&["ps", "--all", "--json"]);
    assert!(
        String::from_utf8_lossy(&ps.stdout).contains("lost"),
        "{}",
        String::from_utf8_lossy(&ps.stdout)
    );
}

#[test]
fn a_second_run_on_a_session_or_workspace_is_refused_by_name_or_waits() {
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
    assert_eq!(stage.run_ids(), known, "a refused run leaves nothing");
    let sessions = std::fs::read_dir(stage.root().join("state/sessions")).unwrap().count();
    assert_eq!(sessions, 1, "not even of its session");

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
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("my turn"));
}

#[test]
fn of_many_runs_that_ask_for_a_name_at_once_one_gets_it() {
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
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
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
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    assert_eq!(stage.output(&["tail", "-", "--raw"]).stdout, content);
}

#[test]
fn from_inside_mcp_json_cannot_be_touched_and_our_tools_are_reached_through_it() {
    let stage = Stage::new();
    let script = "\
mcp caretaker whoami {}
shell echo EVIL > .cursor/mcp.json; rm -f .cursor/mcp.json; mv .cursor .old; mkdir .cursor; rm -rf .cursor; ln -sfn /tmp .cursor; umount .cursor; true
shell cat .cursor/mcp.json
say done";
    let output = stage.play(script, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
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
        assert!(output.status.success(), "{}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    git(&["init", "--quiet"]);
    std::fs::write(stage.workspace().join("a.txt"), "a").unwrap();
    let script = "\
shell git add -A && git commit -qm 'from inside'
shell echo evil > .git/hooks/pre-commit; echo '[core] fsmonitor=evil' >> .git/config; mv .git .git2; true
say done";
    let output = stage.play(script, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
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
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let run = stage.run_ids().pop().unwrap();
    let sent =
        stage.journal(&run).into_iter().find(|entry| entry.line["run"]["kind"] == "prompt_sent");
    assert_eq!(sent.unwrap().line["run"]["length"], json!(prompt.len()));
}

#[test]
fn the_payload_of_a_shim_that_is_killed_before_the_release_never_runs() {
    let stage = Stage::new();
    // Killed at many moments of its start; whenever it did not get to `released`, the agent must not have run.
    for delay_steps in 0..12 {
        let marker = format!("ran-{delay_steps}");
        let run = stage.detach(&format!("shell touch {marker}\nshell sleep 60"), &[]);
        for _ in 0..delay_steps * 4000 {
            std::hint::spin_loop();
        }
        let pid = stage.shim_pid(&run);
        Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap();
        let waited = stage.output(&["wait", &run]);
        assert!(waited.status.signal().is_none());
        let was_released =
            stage.journal(&run).iter().any(|entry| entry.line["run"]["kind"] == "released");
        let has_run = stage.workspace().join(&marker).exists();
        assert!(was_released || !has_run, "the agent ran without having been released");
        stage.assert_no_survivors("after the run");
    }
}

#[test]
fn json_output_names_the_run_though_its_supervisor_dies_before_it_answers() {
    let stage = Stage::new();
    let (program, prompt) = (stage.root().join("caretaker"), stage.root().join("prompt"));
    copy_program(&programs::program("caretaker"), &program);
    assert!(Command::new("mkfifo").arg(&prompt).status().unwrap().success());
    let usual = stage.caretaker(&["run", "--agent", "simulated", "--json"]);
    let mut command = Command::new(&program);
    command.args(usual.get_args()).arg("-f").arg(&prompt).env_clear();
    command.envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(stage.workspace()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    // The command waits for its prompt. From now on its own program is one that says nothing.
    let mut prompt = std::fs::OpenOptions::new().write(true).open(&prompt).unwrap();
    let silent = stage.root().join("silent");
    copy_program(Path::new("/bin/false"), &silent);
    std::fs::rename(&silent, &program).unwrap();
    prompt.write_all(b"hello").unwrap();
    drop(prompt);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    let printed = String::from_utf8(output.stdout).unwrap();
    let first: Value = serde_json::from_str(printed.lines().next().unwrap()).unwrap();
    assert_eq!(first["kind"], "run.created", "{printed}");
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

    // No answer is null, and not a missing field.
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
