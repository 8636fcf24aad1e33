use super::*;
use pretty_assertions::assert_eq;
use std::error::Error;

fn disabled(text: &str) -> DisabledServers {
    DisabledServers::parse(text.as_bytes()).unwrap()
}

fn names(servers: &str, off: &str) -> Vec<String> {
    let servers = UserServers::parse(servers.as_bytes()).unwrap();
    servers
        .sort_out(&disabled(off))
        .unwrap()
        .switched_on
        .into_iter()
        .map(|(name, _)| name)
        .collect()
}

#[test]
fn local_and_remote_servers_are_read_in_their_order() {
    let file = r#"{"mcpServers":{"z":{"command":"a"},"b":{"url":"https://b"},"a":{"command":"c"}},"other":1}"#;
    assert_eq!(names(file, "[]"), ["z", "b", "a"]);
}

#[test]
fn an_empty_object_defines_no_server() {
    assert_eq!(names("{}", "[]"), Vec::<String>::new());
    assert_eq!(names(r#"{"mcpServers":{}}"#, "[]"), Vec::<String>::new());
}

#[test]
fn a_malformed_file_is_an_error_that_names_the_file_and_the_fault() {
    for (text, message, cause) in [
        ("", "mcp.json is not valid JSON", Some("EOF while parsing a value at line 1 column 0")),
        (
            r#"{"mcpServers":{},}"#,
            "mcp.json is not valid JSON",
            Some("trailing comma at line 1 column 18"),
        ),
        ("[]", "mcp.json is not an object", None),
        (r#"{"servers":{}}"#, "mcp.json is not an object with an `mcpServers` object", None),
        (r#"{"mcpServers":[]}"#, "mcp.json is not an object with an `mcpServers` object", None),
    ] {
        let error = UserServers::parse(text.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), message, "{text}");
        assert_eq!(error.source().map(ToString::to_string).as_deref(), cause, "{text}");
    }
}

#[test]
fn half_a_surrogate_pair_is_refused_rather_than_changed() {
    let error = UserServers::parse(br#"{"mcpServers":{"a":{"command":"\ud800"}}}"#).unwrap_err();
    assert!(matches!(error, McpFileError::NotJson { file: McpFile::Servers, .. }), "{error:?}");
}

#[test]
fn a_server_that_cannot_be_used_is_named_unless_it_is_switched_off() {
    let file = r#"{"mcpServers":{"good":{"command":"a"},"bad":{"command":7}}}"#;
    let parsed = UserServers::parse(file.as_bytes()).unwrap();
    let error = parsed.sort_out(&DisabledServers::default()).unwrap_err();
    assert_eq!(error.to_string(), "its server `bad` cannot be used");
    assert_eq!(error.source().unwrap().to_string(), "its `command` is not a string");
    assert_eq!(names(file, r#"["bad"]"#), ["good"]);
}

#[test]
fn servers_are_switched_off_by_name_by_id_or_by_a_value_of_true() {
    for file in
        [r#"["fetch"]"#, r#"["x","fetch-b3a6127d3cbd8e52"]"#, r#"{"fetch":true,"web":false}"#]
    {
        let disabled = disabled(file);
        assert!(disabled.contains("fetch"), "{file}");
        assert!(!disabled.contains("web"), "{file}");
        assert!(!disabled.contains("fet"), "{file}");
        assert!(!disabled.contains("fetch-b3a6127d3cbd8e5"), "{file}");
    }
    assert!(!disabled(r#"["fetch-tool"]"#).contains("fetch"));
    assert!(!disabled("{}").contains("fetch"));
}

#[test]
fn a_list_of_something_else_does_not_count_as_empty() {
    for text in
        ["null", "\"fetch\"", "[1]", r#"["a",{}]"#, r#"{"a":"yes"}"#, r#"{"disabled":["a"]}"#]
    {
        let error = DisabledServers::parse(text.as_bytes()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "mcp-disabled.json is not a list of server names or an object that maps names to true or false",
            "{text}"
        );
    }
}

#[test]
fn debug_output_of_the_users_servers_holds_names_only() {
    let servers =
        UserServers::parse(br#"{"mcpServers":{"a":{"command":"b","env":{"T":"hush"}}}}"#).unwrap();
    assert_eq!(format!("{servers:?}"), r#"UserServers(["a"])"#);
}
