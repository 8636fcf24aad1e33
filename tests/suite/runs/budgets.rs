//! Budgets for a run, a group and a day, with and without a daemon.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::stage::daemon_stage::{DaemonStage, exchange};
use crate::stage::repository::git;
use crate::stage::{Stage, assert_exit, stderr};

fn spent(stage: &Stage, run: &str) -> Value {
    let entries = stage.journal(run);
    let spent = entries.iter().find(|entry| entry.line["run"]["kind"] == "spent").unwrap();
    spent.line["run"].clone()
}

#[test]
fn a_run_that_calls_too_many_tools_is_stopped_and_says_so() {
    let stage = Stage::new();
    let script = "shell true\nshell true\nshell sleep 600\nsay never";
    let output = stage.play(script, &["--max-tool-calls", "2"]);
    assert_exit(&output, 137);
    let ended = stage.ended();
    assert_eq!(
        (&ended["outcome"], &ended["limit"]["limit"]),
        (&json!("quota_exceeded"), &json!("tool_calls"))
    );
    assert!(ended["why"].as_str().unwrap().contains("--max-tool-calls"), "{ended}");
    let run = stage.run_ids().pop().unwrap();
    assert_eq!(spent(&stage, &run)["tool_calls"], 3);
    assert_eq!(spent(&stage, &run).get("tokens"), None, "the agent could not report its tokens");
    let output = stage.play("shell true\nshell true\nsay done", &["--max-tool-calls", "2"]);
    assert_exit(&output, 0);
    let run = stage.run_ids().pop().unwrap();
    assert!(spent(&stage, &run)["tokens"].as_u64().unwrap() > 0);
}

#[test]
fn a_group_that_has_spent_its_budget_waits_until_it_is_raised() {
    let stage = DaemonStage::new(1);
    let budget = ["--group", "night", "--group-budget", "tool_calls=2"];
    let first = stage.queue("one", "shell true\nshell true\nsay done", &budget);
    assert_eq!(stage.wait_for_end(&first), Some(0));
    let second = stage.queue("two", "say done", &["--group", "night"]);
    let why = stage.why(&second);
    assert_eq!(why, "queued: the budget of group `night` is exhausted: 2 of 2 tool calls used");
    let (_, one) = stage.get(&format!("/v1/runs/{second}"));
    assert_eq!(one["waiting"]["waits_for"], "budget");
    assert_eq!(one["waiting"]["spent"]["kind"], "tool_calls");
    // Other runs do not wait, and the next daemon reports the same.
    let other = stage.queue("three", "say done", &[]);
    assert_eq!(stage.wait_for_end(&other), Some(0));
    stage.kill_daemon();
    std::fs::remove_file(stage.root().join("state/index.db")).unwrap();
    stage.start_daemon();
    let third = stage.queue("four", "say done", &["--group", "night"]);
    assert!(stage.why(&third).contains("budget of group `night`"), "{}", stage.why(&third));

    let raised = stage.output(&["group", "budget", "night", "tool_calls=3", "--json"]);
    assert_exit(&raised, 0);
    let raised: Value = serde_json::from_slice(&raised.stdout).unwrap();
    assert_eq!((&raised["budget"]["tool_calls"], &raised["overspent"]), (&json!(3), &Value::Null));
    for run in [second, third] {
        assert_eq!(stage.wait_for_end(&run), Some(0));
    }
    let (status, _) = stage.post("/v1/groups/..%2Fqueue/budget", &json!({}));
    assert_eq!(status, 400);
    let (status, answer) =
        exchange(stage.connect().unwrap(), "POST", "/v1/groups/night/budget", &[], "");
    assert_eq!(status, 400, "a missing body lifts no limit: {answer}");
}

#[test]
fn unreported_tokens_do_not_count_as_zero() {
    let stage = Stage::new();
    let group = ["--group", "night", "--group-budget", "tokens=100k"];
    // This run fails before it reports any tokens.
    let output = stage.play("exit 3", &group);
    assert_exit(&output, 1);
    let refused = stage.play("say hi", &["--group", "night"]);
    assert_exit(&refused, 137);
    assert!(stderr(&refused).contains("1 run did not report its usage"), "{}", stderr(&refused));
    assert_eq!(stage.run_ids().len(), 1);
    let shown = stage.output(&["group", "show", "night"]);
    assert!(stderr(&shown).contains("unknown for 1 run"), "{}", stderr(&shown));
    let lifted = stage.output(&["group", "budget", "night", "none"]);
    assert_exit(&lifted, 0);
    let taken = stage.play("say hi", &["--group", "night"]);
    assert_exit(&taken, 0);
    let alone = stage.play("say hi", &["--group-budget", "tokens=1"]);
    assert_exit(&alone, 2);
}

#[test]
fn the_daily_budget_holds_back_every_run() {
    let stage = Stage::new();
    stage.configure_also("[budgets.day]\ntool_calls = \"1\"\n");
    let output = stage.play("shell true\nsay done", &[]);
    assert_exit(&output, 0);
    let refused = stage.play("say hi", &[]);
    assert_exit(&refused, 137);
    assert!(
        stderr(&refused).contains("today's budget is exhausted: 1 of 1 tool calls"),
        "{}",
        stderr(&refused)
    );

    let stage = DaemonStage::without_daemon(2);
    stage.configure_also("[budgets.day]\ntool_calls = \"1\"\n");
    stage.start_daemon();
    let first = stage.queue("one", "shell true\nsay done", &[]);
    assert_eq!(stage.wait_for_end(&first), Some(0));
    let second = stage.queue("two", "say done", &[]);
    assert!(stage.why(&second).contains("today's budget is exhausted"), "{}", stage.why(&second));
    let status = stage.output(&["daemon", "status"]);
    let status = String::from_utf8(status.stdout).unwrap();
    assert!(status.contains("tool calls 1 of 1"), "{status}");
    let killed = stage.output(&["kill", &second]);
    assert_exit(&killed, 0);
}

#[test]
fn the_assumed_tokens_of_a_silent_run_are_shown() {
    let stage = DaemonStage::without_daemon(1);
    stage.configure_also("[budgets.day]\ntokens = \"100k\"\n");
    stage.start_daemon();
    let first = stage.queue("one", "say done", &[]);
    assert_eq!(stage.wait_for_end(&first), Some(0));
    let price = spent(&stage, &first)["tokens"].as_u64().unwrap();
    let n_unknown = 100_000 / price + 1;
    for number in 0..n_unknown {
        // Early agents report no tokens. Some of the runs queued together start before the daemon knows this.
        let run = stage.queue(&format!("u{number}"), "generation 2026.01\nsay done", &[]);
        if stage.why(&run).contains("today's budget") {
            break;
        }
        assert_eq!(stage.wait_for_end(&run), Some(0));
    }
    let last = stage.queue("last", "say never", &[]);
    let why = stage.why(&last);
    let words = format!("as {price}, the highest usage");
    assert!(why.contains(&words), "{why}");
    let status = stage.output(&["daemon", "status"]);
    let status = String::from_utf8(status.stdout).unwrap();
    assert!(status.contains("(each counts as "), "{status}");
    let (_, one) = stage.get(&format!("/v1/runs/{last}"));
    assert_eq!(one["waiting"]["spent"]["each_unknown"], json!(price));
    for run in stage.run_ids() {
        stage.output(&["kill", &run]);
    }
}

#[test]
fn a_run_over_its_token_limit_says_so_and_keeps_its_changes() {
    let stage = Stage::new();
    let script = "shell echo done > made.txt\nsay all is well";
    let output = stage.play(script, &["--max-tokens", "1"]);
    assert_exit(&output, 137);
    assert!(String::from_utf8_lossy(&output.stdout).contains("all is well"));
    let ended = stage.ended();
    let run = stage.run_ids().pop().unwrap();
    let taken = &spent(&stage, &run)["tokens"];
    assert_eq!(ended["outcome"], "quota_exceeded");
    assert_eq!(ended["limit"], json!({"limit": "tokens", "most": 1, "taken": taken}));
    let why = ended["why"].as_str().unwrap();
    assert!(why.contains("so its changes stay") && why.contains("--max-tokens"), "{why}");
    assert!(stage.workspace().join("made.txt").exists());
    let journal = stage.journal(&run);
    let reached = journal.iter().filter(|entry| entry.line["run"]["kind"] == "limit_reached");
    assert_eq!(reached.count(), 1);
    // The user may continue with a higher limit.
    let session = stage.session_of(&run);
    let flags = ["--max-tokens", "none", "--widen", "max-tokens"];
    let again = stage.resume(&session, "say more", &flags);
    assert_exit(&again, 0);

    let path = stage.home().join(".config/caretaker/config.toml");
    let config = std::fs::read_to_string(path).unwrap();
    stage.configure(&config.replace("[limits]\n", "[limits]\ntokens = \"1k\"\n"));
    // Early agents report no tokens: the usage is unknown, and unknown does not count as "within the limit".
    let output = stage.play("generation 2026.01\nsay hi", &[]);
    assert_exit(&output, 0);
    let why = stage.ended()["why"].as_str().unwrap().to_owned();
    assert!(
        why.contains("the agent gave its result; the agent did not report its tokens"),
        "{why}"
    );
    let run = stage.run_ids().pop().unwrap();
    assert_eq!(spent(&stage, &run).get("tokens"), None);
}

#[test]
fn a_run_over_its_token_limit_is_not_continued_automatically() {
    let stage = DaemonStage::new(4);
    let child = json!({"name": "kid", "prompt": "Play:\n```agent\nsay done\n```"});
    let script = format!("mcp caretaker spawn_run {child}\nsay I am done");
    let workspace = stage.new_workspace("one");
    git(&workspace, &["init", "-q"]);
    git(&workspace, &["commit", "-qm", "one", "--allow-empty"]);
    let boss = stage.queue("one", &script, &["--name", "boss", "--max-tokens", "1"]);
    let after = stage.queue("two", "say never", &["--after-ok", &boss]);
    assert_eq!(stage.wait_for_end(&boss), Some(137), "{}", stage.why(&boss));
    assert!(stage.why(&boss).contains("so its changes stay"), "{}", stage.why(&boss));
    stage.wait_for_end(&after);
    assert!(stage.why(&after).contains("dependency failed"), "{}", stage.why(&after));
    let spec = |run: &str| -> Value {
        let spec = std::fs::read(stage.runs().join(run).join("spec.json")).unwrap();
        serde_json::from_slice(&spec).unwrap()
    };
    let kid = stage.run_ids().into_iter().find(|run| spec(run)["name"] == "kid").unwrap();
    assert_eq!(spec(&kid)["limits"]["tokens"], 1);
    assert_eq!(stage.wait_for_end(&kid), Some(137));

    // The report that the child is over waits in the parent's inbox and does not wake the parent.
    let inbox = || -> Value {
        let output = stage.output(&["inbox", "--json"]);
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let waiting = &inbox()["undelivered"][0];
    assert_eq!(
        (&waiting["from"]["who"], &waiting["delivery"]),
        (&json!("end"), &json!("on_resume"))
    );
    let shown = stage.output(&["inbox"]);
    assert!(stderr(&shown).contains("the daemon does not wake this session"), "{}", stderr(&shown));
    let before = stage.run_ids();
    let mut events = stage.follow("/v1/events", Some("1.0")).unwrap();
    // A user wakes the parent, which then gets the reports of both children. No run was started in between.
    let sent = stage.output(&["send", &boss, "go on, please"]);
    assert!(stderr(&sent).contains("as the session's next turn"), "{}", stderr(&sent));
    let is_new = |run: &Value| before.iter().all(|known| run != known);
    let next = events.find(|event| is_new(&event.data["run"])).unwrap();
    let next = next.data["run"].as_str().unwrap().to_owned();
    drop(events);
    assert_eq!(spec(&next)["delivers"].as_array().unwrap().len(), 2);
    assert_eq!(
        (&spec(&next)["session"], &spec(&next)["limits"]["tokens"]),
        (&spec(&boss)["session"], &json!(1))
    );
    stage.wait_for_end(&next);
    assert_eq!(inbox()["undelivered"], json!([]));
}

#[test]
fn a_run_that_ends_with_an_exhausted_budget_says_so() {
    let stage = Stage::new();
    let spent = "the budget of group `night` is exhausted: 3 of 2 tool calls used; \
        live runs go on, no new runs start";
    let script = "shell true\nshell true\nshell true\nsay done";
    let budget = ["--group", "night", "--group-budget", "tool_calls=2"];
    let output = stage.play(script, &budget);
    assert_exit(&output, 0);
    assert!(stderr(&output).contains(spent), "{}", stderr(&output));
    let run = stage.run_ids().pop().unwrap();
    let waited = stage.output(&["wait", &run]);
    assert_eq!(waited.status.code(), Some(0));
    assert!(stderr(&waited).contains(spent), "{}", stderr(&waited));
    // A budget that is not exhausted causes no message.
    stage.output(&["group", "budget", "night", "tool_calls=9"]);
    let output = stage.play("say done", &["--group", "night"]);
    assert!(!stderr(&output).contains("budget"), "{}", stderr(&output));
}
