use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;

#[test]
fn the_rules_and_choices_of_the_user_are_read_and_the_rest_is_named() {
    let file = json!({
        "version": 1,
        "permissions": { "allow": ["Shell(ls)"], "deny": ["Shell(git push)", "Write(~/.ssh/**)"] },
        "approvalMode": "unrestricted",
        "model": { "modelId": "opus-4.6", "displayName": "Claude 4.6 Opus" },
        "hasChangedDefaultModel": true,
        "maxMode": false,
        "network": { "useHttp1ForAgent": true },
        "authInfo": { "email": "ada@example.org", "activeTeamId": 42 },
        "sandbox": { "mode": "disabled", "networkAccess": "user_config_with_defaults" },
        "display": { "mode": "zen" },
    });
    let policy = user_policy(file.to_string().as_bytes()).unwrap();
    assert_eq!(policy.deny, ["Shell(git push)", "Write(~/.ssh/**)"]);
    assert_eq!(policy.allow, ["Shell(ls)"]);
    let keys: Vec<&str> = policy.model.keys().map(String::as_str).collect();
    assert_eq!(keys, ["hasChangedDefaultModel", "maxMode", "model"]);
    assert_eq!((policy.model_name(), policy.team()), (Some("Claude 4.6 Opus"), Some(&json!(42))));
    assert!(policy.http1);
    assert_eq!(policy.left_out, ["approvalMode in cli-config.json"]);
}

#[test]
fn an_account_without_a_team_and_an_empty_file_say_nothing() {
    let account =
        br#"{"authInfo": {"email": "ada@example.org"}, "network": {"useHttp1ForAgent": "yes"}}"#;
    assert_eq!(user_policy(account).unwrap(), AgentPolicy::default());
    assert_eq!(user_policy(b"{}").unwrap(), AgentPolicy::default());
}

#[test]
fn rules_that_cannot_be_read_are_an_error_and_never_no_rules() {
    for (text, complaint) in [
        ("", "it is not valid JSON"),
        ("{ \"permissions\": {} // mine\n}", "it is not valid JSON"),
        ("[]", "`the file` is not an object"),
        (r#"{"permissions": ["Shell(rm)"]}"#, "`permissions` is not an object"),
        (r#"{"permissions": {"deny": "Shell(rm)"}}"#, "`deny` is not a list of texts"),
        (r#"{"permissions": {"deny": ["Shell(rm)", 1]}}"#, "`deny` is not a list of texts"),
    ] {
        assert_eq!(user_policy(text.as_bytes()).unwrap_err().to_string(), complaint, "{text}");
        assert!(project_deny_rules(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn a_project_denies_and_cannot_allow() {
    let file =
        br#"{"permissions": {"allow": ["Shell(**)"], "deny": ["Shell(make deploy)"]}, "other": 1}"#;
    assert_eq!(project_deny_rules(file).unwrap(), ["Shell(make deploy)"]);
}

#[test]
fn only_a_file_that_certainly_has_no_hook_counts_as_none() {
    for none in [r#"{"version":1,"hooks":{}}"#, r#"{"hooks":{"stop":[]}}"#] {
        assert!(!has_hooks(none.as_bytes()), "{none}");
    }
    for some in ["", "{}", r#"{"hooks":[]}"#, r#"{"hooks":{"stop":[{"command":"x"}]}}"#] {
        assert!(has_hooks(some.as_bytes()), "{some}");
    }
}

#[test]
fn the_programs_of_hooks_are_absolute_paths_in_the_first_two_words() {
    let file = json!({ "version": 1, "hooks": {
        "beforeShellExecution": [
            { "command": "/opt/guard/check --config /opt/guard/secret" },
            { "command": "python3 \"/opt/guard/check.py\"" },
            { "command": "./hooks/own.sh" },
            { "type": "prompt", "prompt": "Is it safe?" },
        ],
        "stop": [{ "command": "/opt/guard/check" }],
        "sessionEnd": "wrong",
    }});
    let expected = ["/opt/guard/check", "/opt/guard/check.py"].map(PathBuf::from);
    assert_eq!(hook_programs(file.to_string().as_bytes()), expected);
    assert_eq!(hook_programs(b"not json"), Vec::<PathBuf>::new());
}

proptest! {
    #[test]
    fn no_text_makes_the_readers_panic(text in "\\PC*") {
        user_policy(text.as_bytes()).ok();
        project_deny_rules(text.as_bytes()).ok();
        hook_programs(text.as_bytes());
        has_hooks(text.as_bytes());
    }
}
