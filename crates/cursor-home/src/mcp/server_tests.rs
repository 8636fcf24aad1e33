use super::*;
use pretty_assertions::assert_eq;
use serde_json::json;

#[test]
fn a_server_of_ours_has_only_the_fields_it_needs() {
    let bare = McpServer::stdio("/bin/relay", [], []);
    assert_eq!(Value::from(bare.definition().clone()), json!({"command": "/bin/relay"}));
    let full = McpServer::stdio("/bin/relay", ["mcp", "-v"], [("Z", "1"), ("A", "2")]);
    assert_eq!(
        Value::from(full.definition().clone()).to_string(),
        r#"{"command":"/bin/relay","args":["mcp","-v"],"env":{"Z":"1","A":"2"}}"#
    );
    assert_eq!(McpServer::from_json(full.definition().clone().into()), Ok(full));
}

#[test]
fn a_definition_is_kept_as_it_was_read() {
    let text = r#"{"enabledTools":["b","a"],"x-own":{"k":[1,2.50]},"env":{"Z":"1","A":"2"},"envFile":".env","command":"uvx","auth":{"CLIENT_ID":"c"}}"#;
    let server = McpServer::from_json(serde_json::from_str(text).unwrap()).unwrap();
    assert_eq!(server.transport(), Transport::Stdio);
    assert_eq!(server.n_enabled_tools(), Some(2));
    assert_eq!(Value::from(server.definition().clone()).to_string(), text.replace("2.50", "2.5"));
}

#[test]
fn the_address_makes_a_server_remote_whatever_its_type_says() {
    let server = McpServer::from_json(json!({"type": "stdio", "url": "https://x"})).unwrap();
    assert_eq!(server.transport(), Transport::Remote);
}

#[test]
fn a_definition_that_cannot_work_is_refused_with_its_fault() {
    for (definition, message) in [
        (json!("uvx"), "its definition is not an object"),
        (json!({}), "it has neither `command` nor `url`"),
        (json!({"command": "a", "url": "b"}), "it has both `command` and `url`"),
        (json!({"command": ["a"]}), "its `command` is not a string"),
        (json!({"command": "a", "args": "b"}), "its `args` is not a list of strings"),
        (json!({"command": "a", "args": [1]}), "its `args` is not a list of strings"),
        (json!({"command": "a", "env": {"A": 1}}), "its `env` is not an object with string values"),
        (json!({"url": "a", "headers": null}), "its `headers` is not an object with string values"),
        (json!({"url": "a", "auth": "b"}), "its `auth` is not an object"),
    ] {
        let error = McpServer::from_json(definition.clone()).unwrap_err();
        assert_eq!(error.to_string(), message, "{definition}");
    }
}

#[test]
fn debug_output_holds_no_value() {
    let server = McpServer::stdio("/bin/x", ["--token=hush"], [("TOKEN", "hush")]);
    let shown = format!("{server:?}");
    assert!(
        shown.contains("env") && !shown.contains("hush") && !shown.contains("TOKEN"),
        "{shown}"
    );
}

#[test]
fn secrets_are_distinguished_from_paths_and_switches() {
    let secrets = |definition| -> Vec<String> {
        McpServer::from_json(definition).unwrap().secrets().map(str::to_owned).collect()
    };
    assert_eq!(
        secrets(json!({"command": "a", "env": {"GITHUB_TOKEN": "t0ken", "HOME": "/home/me"}})),
        ["t0ken"]
    );
    assert_eq!(
        secrets(json!({"url": "https://b", "headers": {"Authorization": "Bearer t0ken"}})),
        ["Bearer t0ken", "t0ken"]
    );
    assert_eq!(
        secrets(json!({"url": "https://b", "auth": {"CLIENT_SECRET": "s", "scopes": ["x"]}})),
        ["s"]
    );
}

#[test]
fn the_host_of_a_remote_server_has_the_form_that_allow_lists_use() {
    for (url, host) in [
        ("https://docs.test/mcp", Some("docs.test")),
        ("HTTPS://Docs.Test:443?x", Some("docs.test")),
        ("https://ada:hush@docs.test:8443/mcp#x", Some("docs.test:8443")),
        ("http://docs.test/mcp", None),
        ("https:///mcp", None),
        ("docs.test", None),
    ] {
        let server = McpServer::from_json(json!({ "url": url })).unwrap();
        assert_eq!(server.remote_host().unwrap().ok().as_deref(), host, "{url}");
    }
    assert_eq!(McpServer::stdio("a", [], []).remote_host(), None);
}
