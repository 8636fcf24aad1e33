//! The user's own rules for the agent apply inside: deny rules, model, team, the administrator's hooks. What does not
//! apply is named before the run starts.

use std::fs;
use std::process::Command;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::stage::daemon_stage::DaemonStage;
use crate::stage::install::{Install, in_dot_cursor, log_in, user_denies};
use crate::stage::namespace::Namespace;
use crate::stage::repository::make_repository;
use crate::stage::{Stage, assert_exit, stderr, stdout};

fn spec(stage: &Stage, run: &str) -> Value {
    serde_json::from_slice(&fs::read(stage.runs().join(run).join("spec.json")).unwrap()).unwrap()
}

fn latest(stage: &Stage) -> String {
    stage.run_ids().pop().expect("the stage has a run")
}

fn has(stage: &Stage, name: &str) -> bool {
    stage.workspace().join(name).exists()
}

#[test]
fn what_the_user_denies_stays_denied_even_if_the_agent_rewrites_its_settings() {
    let stage = Stage::new();
    log_in(&stage);
    let install = Install::version(&stage, "2026.10.01-e373342");
    user_denies(&stage, &["Shell(touch)"]);
    // A second agent, which the first one starts inside, reads the settings again.
    let inner = "```agent\nshell mkdir inner-ran\nshell touch inner-denied\nsay done\n```\n";
    fs::write(stage.workspace().join("inner.md"), inner).unwrap();
    let freed = json!({"version": 1, "permissions": {"allow": ["Shell(**)"], "deny": []}});
    let script = format!(
        "shell touch denied\n\
         shell echo '{freed}' > ~/.cursor/cli-config.json; grep -c deny ~/.cursor/cli-config.json > freed\n\
         shell echo '{{}}' > .cursor/cli.json; rm -f .cursor/cli.json; mv .cursor aside; true\n\
         shell {} --print --force --trust --output-format stream-json < inner.md > inner.out 2>&1; true\n\
         say done",
        install.launcher().display()
    );
    let prompt = format!("```agent\n{script}\n```\n");
    assert_exit(&stage.output(&["run", &prompt]), 0);
    assert!(has(&stage, "freed"), "the agent can write its own settings");
    let said = fs::read_to_string(stage.workspace().join("inner.out")).unwrap();
    assert!(has(&stage, "inner-ran"), "the second agent ran: {said}");
    assert!(!has(&stage, "denied") && !has(&stage, "inner-denied"), "{said}");
    assert!(!stage.workspace().join(".cursor").join("cli.json").exists(), "nothing is left");
    let shown = stdout(&stage.output(&["show", "-"]));
    assert!(shown.contains("rules      deny Shell(touch)\n"), "{shown}");
}

#[test]
fn the_model_the_http_version_and_the_team_are_the_users_unless_a_flag_names_a_model() {
    let stage = Stage::new();
    let model = json!({"modelId": "opus-4.6", "displayName": "Claude 4.6 Opus", "maxMode": false});
    let account = json!({"email": "ada@example.org", "activeTeamId": 42});
    let config = json!({
        "version": 1,
        "permissions": {"allow": ["Shell(ls)"], "deny": ["Shell(git push)"]},
        "model": model, "hasChangedDefaultModel": true,
        "network": {"useHttp1ForAgent": true},
        "authInfo": account,
        "approvalMode": "unrestricted",
    });
    in_dot_cursor(&stage, "cli-config.json", &config);
    let script = "shell cp ~/.cursor/cli-config.json seen.json\nsay done";
    assert_exit(&stage.play(script, &[]), 0);
    let seen = fs::read(stage.workspace().join("seen.json")).unwrap();
    let seen: Value = serde_json::from_slice(&seen).unwrap();
    assert_eq!(seen["permissions"]["deny"], json!(["Shell(git push)"]));
    assert_eq!((&seen["model"], &seen["hasChangedDefaultModel"]), (&model, &json!(true)));
    assert_eq!(seen["network"]["useHttp1ForAgent"], true);
    assert_eq!(seen["authInfo"], account);
    assert_eq!(seen["approvalMode"], "allowlist");
    let run = latest(&stage);
    let began = |run: &str| {
        let journal = stage.journal(run).into_iter();
        let mut lines = journal.map(|entry| entry.line["agent"].clone());
        lines.find(|line| line["subtype"] == "init").unwrap()["model"].clone()
    };
    assert_eq!(began(&run), "Claude 4.6 Opus");
    assert_eq!(
        stage.json(&["show", &run, "--json"])["policy"],
        json!({
            "deny": ["Shell(git push)"], "allow": [], "model": "Claude 4.6 Opus", "http1": true,
            "team": 42, "hook_programs": [], "not_applied": ["approvalMode in cli-config.json"],
        })
    );
    // The session keeps its model when the user's default changes.
    let session = stage.session_of(&run);
    let mut other = config.clone();
    other["model"] = json!({"modelId": "gpt-5.4", "displayName": "GPT-5.4"});
    in_dot_cursor(&stage, "cli-config.json", &other);
    assert_exit(&stage.resume(&session, "say on", &[]), 0);
    assert_eq!(began(&latest(&stage)), "Claude 4.6 Opus");
    assert_exit(&stage.play("say hi", &[]), 0);
    assert_eq!(began(&latest(&stage)), "GPT-5.4");
    assert_exit(&stage.play("say hi", &["--model", "gpt-5-mini"]), 0);
    assert_eq!(began(&latest(&stage)), "GPT-5 Mini");
    let policy = &stage.json(&["show", "-", "--json"])["policy"];
    assert_eq!(policy["model"], Value::Null);
}

#[test]
fn a_project_adds_what_it_denies_and_allows_nothing() {
    let stage = Stage::new();
    user_denies(&stage, &["Shell(touch)"]);
    let project = stage.workspace().join(".cursor");
    fs::create_dir(&project).unwrap();
    let rules = json!({"permissions": {"allow": ["Shell(**)"], "deny": ["Shell(mkdir)"]}});
    fs::write(project.join("cli.json"), rules.to_string()).unwrap();
    let script = "shell touch denied\nshell mkdir denied-too\nshell cp /dev/null copied\nsay done";
    assert_exit(&stage.play(script, &[]), 0);
    assert!(!has(&stage, "denied") && !has(&stage, "denied-too") && has(&stage, "copied"));
    fs::remove_file(stage.workspace().join("copied")).unwrap();
    assert_exit(&stage.play(script, &["--no-force"]), 0);
    assert!(!has(&stage, "copied"), "the repository cannot allow anything");
    assert_eq!(fs::read_to_string(project.join("cli.json")).unwrap(), rules.to_string());
}

#[test]
fn without_force_the_agent_runs_what_the_user_allows() {
    let stage = Stage::new();
    let config = json!({"permissions": {"allow": ["Shell(mkdir)"], "deny": []}});
    in_dot_cursor(&stage, "cli-config.json", &config);
    let script = "shell mkdir allowed\nshell touch not-allowed\nsay done";
    assert_exit(&stage.play(script, &["--no-force"]), 0);
    assert!(has(&stage, "allowed") && !has(&stage, "not-allowed"));
    let session = stage.session_of(&latest(&stage));
    // What the user allows later does not widen a session.
    let config = json!({"permissions": {"allow": ["Shell(mkdir)", "Shell(touch)"], "deny": []}});
    in_dot_cursor(&stage, "cli-config.json", &config);
    assert_exit(&stage.resume(&session, "shell touch not-allowed\nsay done", &[]), 0);
    assert!(!has(&stage, "not-allowed"));
    let widened = ["--widen", "permissions"];
    assert_exit(&stage.resume(&session, "shell touch not-allowed\nsay done", &widened), 0);
    assert!(has(&stage, "not-allowed"));
}

#[test]
fn a_resumed_run_has_the_rules_of_its_last_run_and_the_present_ones() {
    let stage = Stage::new();
    user_denies(&stage, &["Shell(touch)"]);
    let session = stage.begin_session();
    user_denies(&stage, &["Shell(mkdir)"]);
    let script = "shell touch a\nshell mkdir b\nsay done";
    let resumed = stage.resume(&session, script, &[]);
    assert_exit(&resumed, 0);
    assert!(!has(&stage, "a") && !has(&stage, "b"));
    let said = stderr(&resumed);
    let kept = "note: your files no longer deny Shell(touch), but the last run of this session did, so this run does; to \
                drop that: --widen permissions";
    assert!(said.contains(kept), "{said}");
    let widened = stage.resume(&session, script, &["--widen", "permissions"]);
    assert_exit(&widened, 0);
    let said = stderr(&widened);
    assert!(
        said.contains("permissions your rules for the last run → no longer denies Shell(touch)"),
        "{said}"
    );
    assert!(has(&stage, "a") && !has(&stage, "b"));
    let quiet = stage.resume(&session, "say on", &[]);
    assert!(!stderr(&quiet).contains("no longer den"), "{}", stderr(&quiet));
}

#[test]
fn rules_that_cannot_be_read_stop_every_run_and_nothing_is_created() {
    let stage = Stage::new();
    in_dot_cursor(&stage, "cli-config.json", &json!({"permissions": {"deny": "Shell(rm)"}}));
    let refused = stage.play("say never", &[]);
    assert_exit(&refused, 2);
    let said = stderr(&refused);
    assert!(said.contains("/.cursor/cli-config.json` cannot be read, so nothing runs"), "{said}");
    assert!(
        said.contains("because `deny` is not a list of texts") && said.contains("hint:"),
        "{said}"
    );
    assert_eq!(stage.run_ids(), Vec::<String>::new());
    // Without a sandbox the agent reads its own file.
    assert_exit(&stage.play("say hi", &["--sandbox", "off"]), 0);
}

#[test]
fn the_users_hooks_are_named_before_the_run_and_strict_refuses_it() {
    let stage = Stage::new();
    let hooks = json!({"version": 1, "hooks": {"stop": [{"command": "./mine.sh"}]}});
    in_dot_cursor(&stage, "hooks.json", &hooks);
    let warned = stage.play("say hi", &[]);
    assert_exit(&warned, 0);
    let warning = "warning: your hooks in ~/.cursor/hooks.json do not apply in the sandbox\n";
    assert!(stderr(&warned).contains(warning), "{}", stderr(&warned));
    let shown = stdout(&stage.output(&["show", "-"]));
    assert!(shown.contains("rules      not applied: ~/.cursor/hooks.json\n"), "{shown}");
    let refused = stage.play("say never", &["--profile", "strict"]);
    assert_exit(&refused, 2);
    let said = stderr(&refused);
    assert!(
        said.contains(
            "hooks.json do not apply in the sandbox, and the profile `strict` refuses that"
        ),
        "{said}"
    );
    assert_eq!(stage.run_ids().len(), 1);
    // A file without hooks says nothing.
    in_dot_cursor(&stage, "hooks.json", &json!({"version": 1, "hooks": {}}));
    let quiet = stage.play("say hi", &[]);
    assert!(!stderr(&quiet).contains("hooks"), "{}", stderr(&quiet));
}

#[test]
fn without_a_sandbox_the_users_own_files_apply() {
    let stage = Stage::new();
    user_denies(&stage, &["Shell(touch)"]);
    let script = "shell touch denied\nshell mkdir allowed\nsay done";
    assert_exit(&stage.play(script, &["--sandbox", "off", "--force"]), 0);
    assert!(!has(&stage, "denied") && has(&stage, "allowed"));
    assert_eq!(spec(&stage, &latest(&stage)).get("policy"), None);
    assert_eq!(stage.json(&["show", "-", "--json"]).get("policy"), None);
}

#[test]
fn children_and_runs_of_the_api_have_the_rules_too() {
    let stage = DaemonStage::new(3);
    make_repository(&stage.workspace());
    user_denies(&stage, &["Shell(touch)"]);
    in_dot_cursor(&stage, "hooks.json", &json!({"hooks": {"stop": [{"command": "x"}]}}));
    let child = json!({"name": "kid", "prompt": "```agent\nshell touch denied\nsay done\n```"});
    let script = format!(
        "shell while [ ! -e go ]; do sleep 0.02; done\nmcp caretaker spawn_run {child}\n\
         until[text=\"is over: succeeded\"] caretaker check_inbox\nsay done"
    );
    let parent = stage.detach(&script, &["--name", "boss"]);
    stage.wait_until(&parent, |line| line["kind"] == "agent.tool_started");
    // The user denies more while the parent runs.
    user_denies(&stage, &["Shell(mkdir)"]);
    fs::write(stage.workspace().join("go"), "").unwrap();
    assert_eq!(stage.wait_for_end(&parent), Some(0));
    let is_child = |run: &String| spec(&stage, run)["name"] == "kid";
    let child = stage.run_ids().into_iter().find(is_child).unwrap();
    let deny = &spec(&stage, &child)["policy"]["deny"];
    assert_eq!(deny, &json!(["Shell(mkdir)", "Shell(touch)"]));

    let prompt = "```agent\nshell mkdir denied\nsay done\n```";
    let body = json!({"prompt": prompt, "agent": "simulated", "workspace": stage.workspace()});
    let (status, answer) = stage.post("/v1/runs", &body);
    assert_eq!(status, 202, "{answer}");
    assert_eq!(
        answer["warnings"],
        json!(["your hooks in ~/.cursor/hooks.json do not apply in the sandbox"])
    );
    assert_eq!(stage.wait_for_end(answer["run"].as_str().unwrap()), Some(0));
    assert!(!has(&stage, "denied"));
}

/// Starts `caretaker` where `/etc/cursor` and `/opt` are directories of the stage.
fn with_enterprise(stage: &Stage, args: &[&str]) -> Option<Command> {
    let namespace = Namespace::with_mounts()?;
    let mut command = stage.caretaker(args);
    namespace.trust(stage, &mut command);
    let root = stage.root();
    let root = root.display();
    let prepare = format!(
        "cp -r /etc/. {root}/etc 2>/dev/null; cp -r {root}/cursor {root}/etc/; mount --bind {root}/etc /etc && \
         mount --bind {root}/opt /opt && exec \"$@\""
    );
    Some(namespace.command(&["sh", "-c", &prepare, "sh"], &command))
}

#[test]
fn the_administrators_hooks_and_their_programs_can_run_inside_and_nothing_beside_them_is_shown() {
    let stage = Stage::new();
    for directory in ["etc", "opt/guard", "cursor/hooks"] {
        fs::create_dir_all(stage.root().join(directory)).unwrap();
    }
    let script = |path: &str, says: &str| {
        use std::os::unix::fs::PermissionsExt;
        let path = stage.root().join(path);
        fs::write(&path, format!("#!/bin/sh\necho {says}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    script("cursor/hooks/own.sh", "own");
    script("opt/guard/check", "guard");
    fs::write(stage.root().join("opt/guard/key"), "secret").unwrap();
    let hooks = json!({"version": 1, "hooks": {"beforeShellExecution": [
        {"command": "./hooks/own.sh"}, {"command": "/opt/guard/check --config /opt/guard/key"},
    ]}});
    fs::write(stage.root().join("cursor/hooks.json"), hooks.to_string()).unwrap();
    let agent = "```agent\n\
        shell cd /etc/cursor && ./hooks/own.sh > ~/project/out; /opt/guard/check >> ~/project/out; true\n\
        shell ls /opt/guard >> out; echo x >> /etc/cursor/hooks.json; echo x > /etc/cursor/new; true\nsay done\n```";
    let Some(mut command) = with_enterprise(&stage, &["run", "--agent", "simulated", agent]) else {
        return;
    };
    assert_exit(&command.output().unwrap(), 0);
    let out = fs::read_to_string(stage.workspace().join("out")).unwrap();
    assert_eq!(out, "own\nguard\ncheck\n");
    let on_host = stage.root().join("etc/cursor");
    assert_eq!(fs::read_to_string(on_host.join("hooks.json")).unwrap(), hooks.to_string());
    assert!(!on_host.join("new").exists());
    let policy = &stage.json(&["show", "-", "--json"])["policy"];
    assert_eq!(policy["hook_programs"], json!(["/opt/guard/check"]));
}
