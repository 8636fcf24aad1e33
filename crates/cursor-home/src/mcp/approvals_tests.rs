use super::*;
use pretty_assertions::assert_eq;
use proptest::prelude::*;

fn server(definition: &str) -> McpServer {
    McpServer::from_json(serde_json::from_str(definition).unwrap()).unwrap()
}

fn normalised_text(definition: &str) -> String {
    Value::from(normalised(&server(definition))).to_string()
}

#[test]
fn ids_equal_those_that_cursor_itself_wrote() {
    for (root, name, definition, id) in [
        (
            "/tmp/work",
            "fetch",
            r#"{"command":"uvx","args":["mcp-server-fetch"]}"#,
            "fetch-b3a6127d3cbd8e52",
        ),
        (
            "/tmp/work",
            "fetch",
            r#"{"command":"uvx","args":["mcp-server-fetch"],"env":{"TOKEN":"x"}}"#,
            "fetch-4c7232835349773b",
        ),
        (
            "/private/tmp/work",
            "withtypecwd",
            r#"{"type":"stdio","command":"uvx","args":["mcp"],"cwd":"/tmp/probe"}"#,
            "withtypecwd-ba71d2f70913528e",
        ),
        (
            "/private/tmp/work",
            "remote",
            r#"{"type":"http","url":"https://mcp.example.com","headers":{"Authorization":"Bearer x"}}"#,
            "remote-abc2ffe78532b37e",
        ),
    ] {
        assert_eq!(approval_id(root, name, &server(definition)), id);
    }
}

#[test]
fn only_relevant_fields_are_hashed_and_in_cursors_order() {
    assert_eq!(
        normalised_text(
            r#"{"enabledTools":["a"],"cwd":"/c","env":{"Z":"1","A":"2"},"envFile":".env","own":1,"args":[],"command":"u","type":"stdio","headers":{}}"#
        ),
        r#"{"type":"stdio","command":"u","args":[],"env":{"Z":"1","A":"2"},"cwd":"/c"}"#
    );
    assert_eq!(
        normalised_text(r#"{"headers":{"B":"1"},"auth":{},"args":["x"],"url":"u"}"#),
        r#"{"url":"u","headers":{"B":"1"}}"#
    );
}

#[test]
fn number_like_keys_come_first_as_in_javascript() {
    assert_eq!(
        normalised_text(
            r#"{"command":"u","env":{"B":"","10":"","9":"","01":"","4294967295":"","4294967294":"","A":"","-1":"","+5":""}}"#
        ),
        r#"{"command":"u","env":{"9":"","10":"","4294967294":"","B":"","01":"","4294967295":"","A":"","-1":"","+5":""}}"#
    );
}

#[test]
fn text_is_escaped_as_json_stringify_does() {
    let raw =
        "\u{0}\u{8}\t\n\u{b}\u{c}\r\u{1f} \"\\/<>&'\u{7f}\u{80}\u{2028}\u{2029}\u{fffe}é\u{1F980}";
    let expected = concat!(
        r#""\u0000\b\t\n\u000b\f\r\u001f \"\\/<>&'"#,
        "\u{7f}\u{80}\u{2028}\u{2029}\u{fffe}é\u{1F980}\""
    );
    assert_eq!(Value::from(raw).to_string(), expected);
}

#[test]
fn optional_escapes_do_not_change_the_id() {
    let plain = server(r#"{"command":"é/🦀"}"#);
    let escaped = server(r#"{"command":"\u00e9\/\ud83e\udd80"}"#);
    assert_eq!(approval_id("/p", "n", &plain), approval_id("/p", "n", &escaped));
}

#[test]
fn the_file_lists_the_ids_in_order() {
    let mut servers = McpServers::default();
    servers.add("fetch", server(r#"{"command":"uvx","args":["mcp-server-fetch"]}"#)).unwrap();
    let bytes = approvals_json("/tmp/work", &servers);
    assert_eq!(String::from_utf8(bytes).unwrap(), "[\n  \"fetch-b3a6127d3cbd8e52\"\n]\n");
    assert_eq!(approvals_json("/tmp/work", &McpServers::default()), b"[]\n");
}

proptest! {
    #[test]
    fn an_id_depends_on_the_path_the_name_and_the_command(a in "\\PC{1,8}", b in "\\PC{1,8}") {
        prop_assume!(a != b);
        let of = |root: &str, command: &str| approval_id(root, "n", &McpServer::stdio(command, [], []));
        prop_assert_ne!(of(&a, "c"), of(&b, "c"));
        prop_assert_ne!(of("/p", &a), of("/p", &b));
        let id = of(&a, &b);
        prop_assert!(id.len() == 18 && id[2..].bytes().all(|c| c.is_ascii_hexdigit()));
    }
}
