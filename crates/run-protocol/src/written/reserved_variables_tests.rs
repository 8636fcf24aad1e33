use pretty_assertions::assert_eq;

use super::*;

#[test]
fn caretaker_proxy_and_loader_variables_are_reserved_and_others_are_not() {
    for (name, expected) in [
        ("HOME", Some(Reserved::Ours)),
        ("PATH", Some(Reserved::Ours)),
        ("CURSOR_CONFIG_DIR", Some(Reserved::Ours)),
        ("XDG_CONFIG_HOME", Some(Reserved::Ours)),
        ("CARETAKER_SOCKET", Some(Reserved::Ours)),
        ("HTTPS_PROXY", Some(Reserved::Proxy)),
        ("https_proxy", Some(Reserved::Proxy)),
        ("Http_Proxy", Some(Reserved::Proxy)),
        ("NO_PROXY", Some(Reserved::Proxy)),
        ("ALL_PROXY", Some(Reserved::Proxy)),
        ("LD_PRELOAD", Some(Reserved::Loader)),
        ("LD_AUDIT", Some(Reserved::Loader)),
        ("NODE_OPTIONS", Some(Reserved::Loader)),
        ("BASH_ENV", Some(Reserved::Loader)),
        ("ENV", Some(Reserved::Loader)),
        ("NODE_EXTRA_CA_CERTS", None),
        ("MY_PATH", None),
        ("MY_HTTPS_PROXY_NOTE", None),
        ("ENVIRONMENT", None),
        ("RUST_LOG", None),
        ("NPM_TOKEN", None),
    ] {
        assert_eq!(reserved(name), expected, "{name}");
    }
}

#[test]
fn every_variable_that_caretaker_sets_is_reserved() {
    let agent = cursor_home::AgentEnvironment {
        home: "/home/ada".as_ref(),
        path: "/usr/bin".as_ref(),
        shell: "/bin/sh".as_ref(),
    };
    // The user may choose a language and a terminal.
    let is_free = |name: &str| matches!(name, "LANG" | "TERM");
    for (name, _) in agent.variables() {
        assert_eq!(reserved(name).is_none(), is_free(name), "{name}");
    }
}
