//! What runs may spend: alone, as a group, in a day; with a daemon and without.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::daemon_stage::{DaemonStage, exchange};
use crate::repository::git;
use crate::stage::{Stage, stderr};

fn spent(stage: &Stage, run: &str) -> Value {
    let entries = stage.journal(run);
    let spent = entries.iter().find(|entry| entry.line["run"]["kind"] == "spent").unwrap();
    spent.line["run"].clone()
}

fn configure(stage: &Stage, more: &str) {
    let path = stage.home().join(".config/caretaker/config.toml");
    let config = std::fs::read_to_string(path).unwrap();
    stage.configure(&format!("{config}{more}"));
}

#[test]
fn a_run_that_calls_too_many_tools_is_stopped_and_says_so() {
    let stage = Stage::new();
    let script = "shell true\nshell true\nshell sleep 600\nsay never";
    let output = stage.play(script, &["--max-tool-calls", "2"]);
    assert_eq!(output.status.code(), Some(137), "{}", stderr(&output));
    let ended = stage.ended();
    assert_eq!(
        (&ended["outcome"], &ended["limit"]["limit"]),
        (&json!("quota_exceeded"), &json!("tool_calls"))
    );
    assert!(ended["why"].as_str().unwrap().contains("--max-tool-calls"), "{ended}");
    let run = stage.run_ids().pop().unwrap();
    assert_eq!(spent(&stage, &run)["tool_calls"], 3);
    assert_eq!(spent(&stage, &run).get("tokens"), None, "it did not come to say it");
    let output = stage.play("shell true\nshell true\nsay done", &["--max-tool-calls", "2"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
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
    assert_eq!(
        why,
        "it is queued: the budget of group `night` is spent: 2 of 2 tool calls are taken"
    );
    let (_, one) = stage.get(&format!("/v1/runs/{second}"));
    assert_eq!(one["waiting"]["waits_for"], "budget");
    assert_eq!(one["waiting"]["spent"]["kind"], "tool_calls");
    // Others are not held up, and the next daemon says the same.
    let other = stage.queue("three", "say done", &[]);
    assert_eq!(stage.wait_for_end(&other), Some(0));
    stage.kill_daemon();
    std::fs::remove_file(stage.root().join("state/index.db")).unwrap();
    stage.start_daemon();
    let third = stage.queue("four", "say done", &["--group", "night"]);
    assert!(stage.why(&third).contains("budget of group `night`"), "{}", stage.why(&third));

    let raised = stage.output(&["group", "budget", "night", "tool_calls=3", "--json"]);
    assert_eq!(raised.status.code(), Some(0), "{}", stderr(&raised));
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
fn tokens_that_nobody_told_of_are_not_taken_for_none() {
    let stage = Stage::new();
    let group = ["--group", "night", "--group-budget", "tokens=100k"];
    // It fails before it can say anything of tokens.
    let output = stage.play("exit 3", &group);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let refused = stage.play("say hi", &["--group", "night"]);
    assert_eq!(refused.status.code(), Some(137), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("one run did not say what it took"), "{}", stderr(&refused));
    assert_eq!(stage.run_ids().len(), 1);
    let shown = stage.output(&["group", "show", "night"]);
    assert!(stderr(&shown).contains("unknown of 1 run"), "{}", stderr(&shown));
    let lifted = stage.output(&["group", "budget", "night", "none"]);
    assert_eq!(lifted.status.code(), Some(0), "{}", stderr(&lifted));
    let taken = stage.play("say hi", &["--group", "night"]);
    assert_eq!(taken.status.code(), Some(0), "{}", stderr(&taken));
    let alone = stage.play("say hi", &["--group-budget", "tokens=1"]);
    assert_eq!(alone.status.code(), Some(2), "{}", stderr(&alone));
}

#[test]
fn the_budget_of_a_day_holds_everything() {
    let stage = Stage::new();
    configure(&stage, "[budgets.day]\ntool_calls = \"1\"\n");
    let output = stage.play("shell true\nsay done", &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let refused = stage.play("say hi", &[]);
    assert_eq!(refused.status.code(), Some(137), "{}", stderr(&refused));
    assert!(
        stderr(&refused).contains("the budget of the day is spent: 1 of 1 tool calls"),
        "{}",
        stderr(&refused)
    );

    let stage = DaemonStage::without_daemon(2);
    configure(&stage, "[budgets.day]\ntool_calls = \"1\"\n");
    stage.start_daemon();
    let first = stage.queue("one", "shell true\nsay done", &[]);
    assert_eq!(stage.wait_for_end(&first), Some(0));
    let second = stage.queue("two", "say done", &[]);
    assert!(
        stage.why(&second).contains("the budget of the day is spent"),
        "{}",
        stage.why(&second)
    );
    let status = stage.output(&["daemon", "status"]);
    let status = String::from_utf8(status.stdout).unwrap();
    assert!(status.contains("tool calls 1 of 1"), "{status}");
    let killed = stage.output(&["kill", &second]);
    assert_eq!(killed.status.code(), Some(0), "{}", stderr(&killed));
}

#[test]
fn at_what_price_the_unknown_counts_is_said() {
    let stage = DaemonStage::without_daemon(1);
    configure(&stage, "[budgets.day]\ntokens = \"100k\"\n");
    stage.start_daemon();
    let first = stage.queue("one", "say done", &[]);
    assert_eq!(stage.wait_for_end(&first), Some(0));
    let price = spent(&stage, &first)["tokens"].as_u64().unwrap();
    let n_unknown = 100_000 / price + 1;
    for number in 0..n_unknown {
        // The early agents say nothing of tokens; some that are queued together get in before it is known.
        let run = stage.queue(&format!("u{number}"), "generation 2026.01\nsay done", &[]);
        if stage.why(&run).contains("budget of the day") {
            break;
        }
        assert_eq!(stage.wait_for_end(&run), Some(0));
    }
    let last = stage.queue("last", "say never", &[]);
    let why = stage.why(&last);
    let words = format!("counts as the dearest that did: {price}");
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
fn a_run_that_took_too_many_tokens_says_so_and_what_it_did_stays_done() {
    let stage = Stage::new();
    let script = "shell echo done > made.txt\nsay all is well";
    let output = stage.play(script, &["--max-tokens", "1"]);
    assert_eq!(output.status.code(), Some(137), "{}", stderr(&output));
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
    // A person may go on, with a limit that allows it.
    let session = stage.session_of(&run);
    let flags = ["--max-tokens", "none", "--widen", "max-tokens"];
    let again = stage.resume(&session, "say more", &flags);
    assert_eq!(again.status.code(), Some(0), "{}", stderr(&again));

    let path = stage.home().join(".config/caretaker/config.toml");
    let config = std::fs::read_to_string(path).unwrap();
    stage.configure(&config.replace("[limits]\n", "[limits]\ntokens = \"1k\"\n"));
    // The early agents say nothing of tokens: nobody knows, and that is not "within".
    let output = stage.play("generation 2026.01\nsay hi", &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let why = stage.ended()["why"].as_str().unwrap().to_owned();
    assert!(
        why.contains("the agent gave its result; how many tokens it took was not said"),
        "{why}"
    );
    let run = stage.run_ids().pop().unwrap();
    assert_eq!(spent(&stage, &run).get("tokens"), None);
}

#[test]
fn nothing_follows_by_itself_a_run_that_took_too_many_tokens() {
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

    // That the child is over waits for the parent, and wakes it not.
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
    assert!(stderr(&shown).contains("nobody starts this session unasked"), "{}", stderr(&shown));
    let before = stage.run_ids();
    let mut events = stage.follow("/v1/events", Some("1.0")).unwrap();
    // A person does wake it, and then it hears of both: nothing was started in between.
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
fn a_run_that_ends_with_a_spent_budget_says_so() {
    let stage = Stage::new();
    let spent = "the budget of group `night` is spent: 3 of 2 tool calls are taken; \
        runs that are live go on, and no new ones start";
    let script = "shell true\nshell true\nshell true\nsay done";
    let budget = ["--group", "night", "--group-budget", "tool_calls=2"];
    let output = stage.play(script, &budget);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains(spent), "{}", stderr(&output));
    let run = stage.run_ids().pop().unwrap();
    let waited = stage.output(&["wait", &run]);
    assert_eq!(waited.status.code(), Some(0));
    assert!(stderr(&waited).contains(spent), "{}", stderr(&waited));
    // A budget that is not spent is not worth a word.
    stage.output(&["group", "budget", "night", "tool_calls=9"]);
    let output = stage.play("say done", &["--group", "night"]);
    assert!(!stderr(&output).contains("budget"), "{}", stderr(&output));
}
