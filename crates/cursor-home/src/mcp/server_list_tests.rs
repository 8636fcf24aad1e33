use super::*;
use pretty_assertions::assert_eq;
use proptest::prelude::*;

fn ours() -> McpServers {
    let mut servers = McpServers::default();
    servers.add("caretaker", McpServer::stdio("/run/relay", ["mcp"], [])).unwrap();
    servers
}

fn merge(user: &str) -> Merged {
    let user = UserServers::parse(user.as_bytes()).unwrap();
    ours().merge_user(user, &DisabledServers::default()).unwrap()
}

fn names(servers: &McpServers) -> Vec<&str> {
    servers.iter().map(|(name, _)| name).collect()
}

#[test]
fn the_generated_file_has_the_servers_in_order() {
    let mut servers = ours();
    servers.add("Alpha", McpServer::stdio("a\"b", [], [("Z", "1"), ("A", "<&>")])).unwrap();
    let expected = r#"{
  "mcpServers": {
    "caretaker": {
      "command": "/run/relay",
      "args": [
        "mcp"
      ]
    },
    "Alpha": {
      "command": "a\"b",
      "env": {
        "Z": "1",
        "A": "<&>"
      }
    }
  }
}
"#;
    assert_eq!(String::from_utf8(servers.mcp_json()).unwrap(), expected);
}

#[test]
fn a_name_is_given_once() {
    let error = ours().add("CareTaker", McpServer::stdio("/x", [], [])).unwrap_err();
    assert_eq!(error, NameTaken { by: "caretaker".to_owned() });
}

#[test]
fn servers_of_the_user_follow_ours() {
    let merged = merge(r#"{"mcpServers":{"web":{"url":"https://w"},"fetch":{"command":"uvx"}}}"#);
    assert_eq!(names(&merged.servers), ["caretaker", "web", "fetch"]);
    assert_eq!(merged.clashes, []);
}

#[test]
fn ours_win_a_clash_and_the_clash_is_reported() {
    let merged = merge(
        r#"{"mcpServers":{"Caretaker":{"command":"evil"},"caretaker":{"url":"https://e"},"web":{"url":"https://w"}}}"#,
    );
    assert_eq!(names(&merged.servers), ["caretaker", "web"]);
    assert_eq!(merged.servers.iter().next(), ours().iter().next());
    let clash = |left_out: &str| NameClash { ours: "caretaker".into(), left_out: left_out.into() };
    assert_eq!(merged.clashes, [clash("Caretaker"), clash("caretaker")]);
}

#[test]
fn two_servers_of_the_user_that_differ_in_case_both_stay() {
    let merged = merge(r#"{"mcpServers":{"web":{"url":"https://w"},"WEB":{"url":"https://v"}}}"#);
    assert_eq!(names(&merged.servers), ["caretaker", "web", "WEB"]);
}

#[test]
fn disabled_servers_stay_out_and_are_reported_as_such() {
    let user = UserServers::parse(br#"{"mcpServers":{"caretaker":{"command":"x"}}}"#).unwrap();
    let disabled = DisabledServers::parse(br#"["caretaker"]"#).unwrap();
    let merged = ours().merge_user(user, &disabled).unwrap();
    assert_eq!(
        merged,
        Merged { servers: ours(), clashes: vec![], switched_off: vec!["caretaker".into()] }
    );
}

proptest! {
    #[test]
    fn every_server_of_the_user_is_kept_or_reported(users in proptest::collection::vec("[a-cA-C]{1,2}|caretaker", 0..8)) {
        let definitions: Map<String, Value> =
            users.into_iter().map(|name| (name, json!({"command": "x"}))).collect();
        let merged = merge(&json!({ "mcpServers": definitions }).to_string());
        let kept = names(&merged.servers).len() - 1;
        prop_assert_eq!(kept + merged.clashes.len(), definitions.len());
        let written: Value = serde_json::from_slice(&merged.servers.mcp_json()).unwrap();
        let written: Vec<_> = written["mcpServers"].as_object().unwrap().keys().cloned().collect();
        prop_assert_eq!(written, names(&merged.servers));
    }
}
