use pretty_assertions::assert_eq;

use super::*;

#[test]
fn a_url_is_split_into_its_parts_and_other_text_is_refused() {
    let url: HookUrl = "http://127.0.0.1:8080/hook?x=1".parse().unwrap();
    assert_eq!((url.host.as_str(), url.port, url.path.as_str()), ("127.0.0.1", 8080, "/hook?x=1"));
    let url: HookUrl = "http://[::1]:9".parse().unwrap();
    assert_eq!((url.host.as_str(), url.port, url.path.as_str()), ("::1", 9, "/"));
    let url: HookUrl = "http://localhost?x".parse().unwrap();
    assert_eq!((url.host.as_str(), url.port, url.path.as_str()), ("localhost", 80, "/?x"));
    for text in ["", "ftp://x", "http://", "http://a:b/", "http://u:p@h/", "http://a b/"] {
        assert_eq!(text.parse::<HookUrl>(), Err(NotAHookUrl::Form(text.to_owned())), "{text}");
    }
    let tls = "https://example.org".parse::<HookUrl>().unwrap_err();
    assert!(tls.to_string().contains("curl"), "{tls}");
}
