use pretty_assertions::assert_eq;

use super::*;

fn request<'a>(url: &'a str, headers: &'a [(&'a str, &'a str)]) -> HttpRequest<'a> {
    HttpRequest { method: "POST", url, headers, body: Some("{}"), limit: Duration::from_secs(1) }
}

#[test]
fn a_definition_cannot_smuggle_options_into_the_request() {
    let headers = [("X-Key", "a\"\\"), ("Empty", "")];
    let text = configuration(&request("https://a/\"{1,2}", &headers)).unwrap();
    let lines: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("url")).collect();
    assert_eq!(
        lines,
        [
            r#"url = "https://a/\"{1,2}""#,
            r#"header = "X-Key: a\"\\""#,
            r#"header = "Empty;""#,
            r#"data-binary = "@-""#
        ]
    );
    for (url, name, value) in [
        ("https://a\noutput = /x", "a", "b"),
        ("https://a", "a", "b\r\nc: d"),
        ("https://a", "@file", "b"),
        ("https://a", "", "b"),
        ("https://a", "a: b\n", "c"),
    ] {
        assert!(configuration(&request(url, &[(name, value)])).is_err(), "{url} {name} {value}");
    }
}

#[test]
fn a_head_has_a_status_and_headers() {
    let head = Head::parse("HTTP/1.1 200 OK\r\nMcp-Session-Id: a:b \r\n\r\n").unwrap();
    assert_eq!((head.status, head.header("mcp-session-id")), (200, Some("a:b")));
    assert_eq!(Head::parse("SSH-2.0\r\n\r\n"), None);
}
