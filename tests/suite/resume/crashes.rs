//! Runs that are killed at any moment, and the state of their sessions afterwards.

use std::io::Write;
use std::process::{Child, Command, Output, Stdio};

use cursor_stores::chat::{Ancestry, latest_ancestry};
use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::stage::daemon_stage::DaemonStage;
use crate::stage::dice::{Dice, number_from};
use crate::stage::{Stage, assert_exit, stderr};

/// Several sessions share the rounds and run in parallel, because most of a round is spent waiting. `RESUME_ROUNDS`
/// sets the number of rounds, and `RESUME_SEED` chooses different rounds.
const ROUNDS: u64 = 100;
const LANES: u64 = 5;
const SEED: u64 = 0x5eed_0005;

fn kill_9(pid: u64) {
    // The process may have ended meanwhile.
    Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap();
}

/// Returns what the model remembers of a session.
fn memory(stage: &Stage, session: &str) -> Ancestry {
    let store = stage.session_dir(session).join("store.db");
    latest_ancestry(&store).unwrap().1.expect("the session has a checkpoint")
}

fn check(stage: &Stage, session: &str) -> Value {
    stage.json(&["resume", "--check", "--json", session])
}

#[test]
fn a_kill_at_any_moment_loses_no_conversation_and_no_event() {
    let rounds = number_from("RESUME_ROUNDS", ROUNDS);
    let seed = number_from("RESUME_SEED", SEED);
    std::thread::scope(|scope| {
        for lane in 0..LANES {
            let n_rounds = rounds / LANES + u64::from(lane < rounds % LANES);
            scope.spawn(move || kill_in_rounds(n_rounds, seed + lane));
        }
    });
}

/// Kills one run of a session after another, and checks the session each time.
fn kill_in_rounds(rounds: u64, seed: u64) {
    let mut dice = Dice(seed);
    eprintln!("{rounds} rounds, seed {seed:#x}");
    let stage = Stage::new();
    let session = stage.begin_session();
    let mut n_messages = check(&stage, &session)["messages"].as_u64().unwrap();
    let mut remembered = memory(&stage, &session);
    for round in 0..rounds {
        let script = format!(
            "# round {round}\nsay One.\nshell true\nsay Two.\nshell true\nwait 60s\nsay Three."
        );
        let prompt = format!("Play this:\n```agent\n{script}\n```\n");
        let args = ["resume", &session, &prompt, "--agent", "simulated", "--detach"];
        let output = stage.output(&args);
        assert_eq!(output.status.code(), Some(0), "{seed:#x}, round {round}: {}", stderr(&output));
        let run = String::from_utf8(output.stdout).unwrap().trim().to_owned();

        // Kill after a random number of events. The agent waits after the thirteenth.
        let moment = 1 + dice.below(13);
        stage.wait_until(&run, |line| line["seq"].as_u64().is_some_and(|seq| seq >= moment));
        let before = stage.journal(&run);
        let victim = dice.below(3);
        let sandbox = before.iter().find_map(|entry| entry.line["run"]["sandbox_pid"].as_u64());
        if victim != 1
            && let Some(pid) = sandbox
        {
            kill_9(pid);
        }
        if victim != 0 || sandbox.is_none() {
            kill_9(stage.shim_pid(&run));
        }
        stage.output(&["wait", &run]);
        stage.assert_no_survivors(&format!(
            "{seed:#x}, round {round}, event {moment}, victim {victim}"
        ));

        let after = stage.journal(&run);
        let lines = |entries: &[crate::stage::Entry]| -> Vec<String> {
            entries.iter().map(|entry| entry.line.to_string()).collect()
        };
        assert!(
            lines(&after).starts_with(&lines(&before)),
            "{seed:#x}, round {round}: an event changed"
        );
        let numbers: Vec<u64> = after.iter().map(|entry| entry.seq).collect();
        assert_eq!(
            numbers,
            (1..=after.len() as u64).collect::<Vec<_>>(),
            "{seed:#x}, round {round}"
        );

        let found = check(&stage, &session)["messages"].as_u64().unwrap();
        assert!(found >= n_messages, "{seed:#x}, round {round}: {found} messages of {n_messages}");
        n_messages = found;
        let now = memory(&stage, &session);
        assert!(now.extends(&remembered), "{seed:#x}, round {round}: another conversation");
        remembered = now;
    }
    let output = stage.resume(&session, "recall", &[]);
    assert_exit(&output, 0);
    let recalled = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(recalled.contains("The first turn."), "{recalled}");
}

#[test]
fn an_interrupted_session_is_listed_and_continued_once() {
    let stage = Stage::new();
    let run = stage.detach("# heron\nsay One.\nshell sleep 60", &[]);
    stage.wait_until(&run, |line| line["kind"] == "agent.tool_started");
    kill_9(stage.shim_pid(&run));
    assert_eq!(stage.output(&["wait", &run]).status.code(), Some(5));
    stage.assert_no_survivors("after the crash");
    let ps = stage.output(&["ps"]);
    let listed = String::from_utf8_lossy(&ps.stdout).into_owned();
    assert!(listed.contains("lost") && stderr(&ps).contains("resume --interrupted"), "{listed}");

    let prompt = "Play this:\n```agent\nrecall\n```\n";
    let args = ["resume", "--interrupted", prompt, "--agent", "simulated"];
    let output = stage.output(&args);
    assert_exit(&output, 0);
    let continued = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    assert_eq!(stage.output(&["wait", &continued]).status.code(), Some(0));
    assert_eq!(stage.session_of(&continued), stage.session_of(&run));
    let tail = stage.output(&["tail", &continued]);
    assert!(String::from_utf8_lossy(&tail.stdout).contains("# heron"));
    let ps = String::from_utf8(stage.output(&["ps"]).stdout).unwrap();
    assert!(!ps.contains("lost"), "the run continues: {ps}");
    let ps = String::from_utf8(stage.output(&["ps", "--all"]).stdout).unwrap();
    assert!(ps.contains("lost"), "{ps}");
    let again = stage.output(&args);
    assert!(stderr(&again).contains("no interrupted sessions"), "{}", stderr(&again));
}

/// Starts a run and sends its shim a fatal signal in the middle of a tool call.
fn cut_off(stage: &Stage, signal: &str, flags: &[&str]) -> String {
    let run = stage.detach("# heron\nsay One.\nshell sleep 60", flags);
    stage.wait_until(&run, |line| line["kind"] == "agent.tool_started");
    let pid = stage.shim_pid(&run).to_string();
    assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    stage.output(&["wait", &run]);
    stage.assert_no_survivors("after the signal");
    run
}

/// The session's record names a run as soon as the run has the session. This run dies before that.
#[test]
fn a_run_that_died_before_it_had_the_session_is_continued() {
    let stage = Stage::new();
    let session = stage.begin_session();
    let fifo = stage.workspace().join("hold");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let detach = |script: &str, flags: &[&str]| {
        let output = stage.resume(&session, script, &[&["--detach"], flags].concat());
        assert_exit(&output, 0);
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let first = detach("say One.\nshell cat hold", &[]);
    stage.wait_until(&first, |line| line["kind"] == "agent.tool_started");
    let second = detach("say Two.", &["--wait"]);
    kill_9(stage.shim_pid(&second));
    assert_eq!(stage.output(&["wait", &second]).status.code(), Some(5));
    std::fs::write(&fifo, "go on\n").unwrap();
    assert_eq!(stage.output(&["wait", &first]).status.code(), Some(0));

    let prompt = "Play this:\n```agent\nrecall\n```\n";
    let output = stage.output(&["resume", "--interrupted", prompt, "--agent", "simulated"]);
    assert_exit(&output, 0);
    let continued = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    assert_eq!(stage.output(&["wait", &continued]).status.code(), Some(0));
    assert_eq!(stage.session_of(&continued), session);
}

#[test]
fn a_shutdown_interrupts_runs_and_they_continue_with_their_limits() {
    let stage = Stage::new();
    let profiles = stage.home().join(".config/caretaker/profiles");
    std::fs::create_dir_all(&profiles).unwrap();
    let profile = include_str!("../../../sandbox/profiles/default.toml");
    std::fs::write(profiles.join("mine.toml"), profile).unwrap();
    let flags = ["--profile", "mine", "--name", "nightly", "--label", "for=owls", "--restart"];
    let run = cut_off(&stage, "-TERM", &flags);
    assert_eq!(stage.ended()["outcome"], "interrupted");
    let ps = stage.output(&["ps"]);
    assert!(String::from_utf8_lossy(&ps.stdout).contains("interrupted"), "{}", stderr(&ps));
    let other = stage.home().join("other");
    std::fs::create_dir(&other).unwrap();
    let unmarked = cut_off(&stage, "-KILL", &["--workspace", other.to_str().unwrap()]);

    // A boot script would run this command. It names no agent, so it uses the agent of the last run.
    let args = ["resume", "--interrupted", "--only-restart", "--json"];
    let output = stage.output(&args);
    assert_exit(&output, 0);
    let continued: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&continued["kind"], &continued["continues"]),
        (&"resume.continued".into(), &run.clone().into())
    );
    assert_eq!(continued["pending"][0]["subject"], "sleep 60", "{continued}");
    let continued = continued["run"].as_str().unwrap().to_owned();
    stage.output(&["wait", &continued]);
    let spec = |run: &str| -> Value {
        let text = std::fs::read(stage.runs().join(run).join("spec.json")).unwrap();
        serde_json::from_slice(&text).unwrap()
    };
    let (before, after) = (spec(&run), spec(&continued));
    for field in ["session", "workspace", "profile", "name", "labels", "restart", "limits", "env"] {
        assert_eq!(before[field], after[field], "{field}");
    }
    assert_eq!(after["session_start"], "resume");

    let again = stage.output(&args);
    assert!(stderr(&again).contains("no interrupted sessions"), "{}", stderr(&again));
    let all = stage.output(&["resume", "--interrupted"]);
    assert_exit(&all, 0);
    let continued = String::from_utf8(all.stdout).unwrap().trim().to_owned();
    assert_eq!(stage.session_of(&continued), stage.session_of(&unmarked));
    stage.output(&["wait", &continued]);
    let ps = stage.output(&["ps"]);
    assert!(!stderr(&ps).contains("interrupted;"), "all of them continue: {}", stderr(&ps));
}

#[test]
fn runs_suspended_for_a_reboot_continue_at_once() {
    let stage = Stage::new();
    let run = stage.detach("# heron\nsay One.\nshell sleep 60", &[]);
    stage.wait_until(&run, |line| line["kind"] == "agent.tool_started");
    assert!(stage.output(&["suspend", "--all"]).status.success());
    let nothing = stage.output(&["resume", "--interrupted"]);
    assert!(stderr(&nothing).contains("no interrupted sessions"), "{}", stderr(&nothing));
    let prompt = "Play this:\n```agent\nrecall\n```\n";
    let output = stage.output(&["resume", "--suspended", prompt]);
    assert_exit(&output, 0);
    assert!(stderr(&output).contains("was running `sleep 60`"), "{}", stderr(&output));
    let continued = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    assert_eq!(stage.output(&["wait", &continued]).status.code(), Some(0));
    let tail = stage.output(&["tail", &continued]);
    assert!(String::from_utf8_lossy(&tail.stdout).contains("# heron"));
    for wrong in
        [&["resume", "x", "--only-restart"] as &[&str], &["resume", "--suspended", "a", "b"]]
    {
        assert_eq!(stage.output(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

/// Starts a run and kills it in the middle of a tool call.
fn lose(stage: &Stage) -> String {
    let lost = stage.detach("say remembered\nshell sleep 600", &["--direct"]);
    stage.wait_until(&lost, |line| line["kind"] == "agent.tool_started");
    kill_9(stage.shim_pid(&lost));
    assert_eq!(stage.output(&["wait", &lost]).status.code(), Some(5));
    lost
}

/// A `resume` that has decided what to continue, and is waiting for its prompt.
struct Decided {
    prompt: std::fs::File,
    child: Child,
}

impl Decided {
    fn reach(stage: &Stage, name: &str, args: &[&str]) -> Self {
        let fifo = stage.root().join(name);
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let args = [args, &["-f", fifo.to_str().unwrap()]].concat();
        let child = stage.caretaker(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        // Opening the FIFO for writing waits until the command reads it.
        let prompt = std::fs::OpenOptions::new().write(true).open(&fifo).unwrap();
        Self { prompt, child: child.unwrap() }
    }

    fn go_on(mut self) -> Output {
        self.prompt.write_all(b"```agent\nsay continued\nrecall\n```\n").unwrap();
        drop(self.prompt);
        self.child.wait_with_output().unwrap()
    }
}

fn id_in(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    String::from_utf8(output.stdout.clone()).unwrap().trim().to_owned()
}

#[test]
fn an_interrupted_session_is_continued_once_even_if_two_commands_chose_it() {
    let stage = Stage::new();
    let lost = lose(&stage);
    let args = ["resume", "--interrupted", "--direct"];
    let [first, second] = ["first", "second"].map(|name| Decided::reach(&stage, name, &args));
    let continued = id_in(&first.go_on());
    stage.output(&["wait", &continued]);
    let second = second.go_on();
    assert_exit(&second, 6);
    assert_eq!(
        stage.run_ids(),
        [lost.clone(), continued.clone()],
        "the second command left nothing behind"
    );
    let refusal = format!("run {continued} took the session after run {lost}; nothing was");
    assert!(stderr(&second).contains(&refusal), "{}", stderr(&second));
}

#[test]
fn resume_interrupted_skips_a_session_that_was_resumed_meanwhile() {
    let stage = Stage::new();
    let lost = lose(&stage);
    let interrupted = Decided::reach(&stage, "hold", &["resume", "--interrupted", "--direct"]);
    let resumed = stage.resume(&stage.session_of(&lost), "say resumed", &["--direct"]);
    assert_exit(&resumed, 0);
    let taker = stage.run_ids().pop().unwrap();
    let interrupted = interrupted.go_on();
    assert_exit(&interrupted, 6);
    let refusal = format!("run {taker} took the session after run {lost}; nothing was");
    assert!(stderr(&interrupted).contains(&refusal), "{}", stderr(&interrupted));
    assert_eq!(stage.run_ids(), [lost, taker]);
}

/// The user named the session, so it gets the prompt, after everything that was said in the meantime.
#[test]
fn a_plain_resume_continues_after_another_run_of_the_session() {
    let stage = Stage::new();
    let lost = lose(&stage);
    let session = stage.session_of(&lost);
    let args = ["resume", &session, "--direct", "--agent", "simulated"];
    let resume = Decided::reach(&stage, "hold", &args);
    let prompt = "```agent\nsay meanwhile\n```\n";
    let continued = id_in(&stage.output(&["resume", "--interrupted", "--direct", prompt]));
    assert_eq!(stage.output(&["wait", &continued]).status.code(), Some(0));
    let resumed = resume.go_on();
    assert_exit(&resumed, 0);
    let said = String::from_utf8_lossy(&resumed.stdout).into_owned();
    assert!(said.contains("say meanwhile"), "{said}");
}

#[test]
fn an_interrupted_session_is_continued_once_even_if_one_command_used_the_queue() {
    for queue_comes_first in [true, false] {
        let stage = DaemonStage::new(2);
        let lost = lose(&stage);
        let queued = Decided::reach(&stage, "queued", &["resume", "--interrupted", "--queue"]);
        let direct = Decided::reach(&stage, "direct", &["resume", "--interrupted", "--direct"]);
        assert!(stage.output(&["queue", "pause"]).status.success());
        let (queued, direct) = match queue_comes_first {
            true => (id_in(&queued.go_on()), id_in(&direct.go_on())),
            false => {
                let direct = id_in(&direct.go_on());
                assert_eq!(stage.output(&["wait", &direct]).status.code(), Some(0));
                (id_in(&queued.go_on()), direct)
            }
        };
        assert_eq!(stage.output(&["wait", &direct]).status.code(), Some(0));
        assert!(stage.output(&["queue", "resume"]).status.success());
        assert_eq!(stage.wait_for_end(&queued), Some(6), "{}", stage.why(&queued));
        let refusal = format!("run {direct} took the session after run {lost}");
        let shown = stage.output(&["show", &queued]);
        assert!(String::from_utf8_lossy(&shown.stdout).contains(&refusal), "{shown:?}");
        let has_begun =
            |run: &str| stage.journal(run).iter().any(|it| it.line["run"]["kind"] == "released");
        assert!(has_begun(&direct) && !has_begun(&queued), "only one run was started");
    }
}
