use super::*;

#[test]
fn names_are_plain_words_that_do_not_look_like_ids() {
    for text in ["nightly", "a", "fix-42", "v1.2_x", "bad-bee-f00d-zoo", "abc"] {
        assert!(text.parse::<RunName>().is_ok(), "{text}");
    }
    for text in ["", "-", "-x", "a b", "a/b", "ä", "../x", &"x".repeat(65)] {
        assert_eq!(text.parse::<RunName>(), Err(MarkError::Name), "{text}");
    }
    for text in ["beef", "BEEF", "0191d0f6", "dead-beef"] {
        assert_eq!(text.parse::<RunName>(), Err(MarkError::LooksLikeAnId), "{text}");
    }
}

#[test]
fn odd_labels_are_refused() {
    for text in ["", "x", "=v", "a b=c", "x=\u{1b}[2J"] {
        assert!(text.parse::<Label>().is_err(), "{text:?}");
    }
    assert_eq!(Label::new("a b", ""), Err(MarkError::Label));
}

#[test]
fn variables_that_hold_secrets_or_move_the_agent_are_refused() {
    assert_eq!(
        "RUST_LOG=debug".parse(),
        Ok(Variable { name: "RUST_LOG".to_owned(), value: "debug".to_owned() })
    );
    for (text, error) in [
        ("CURSOR_API_KEY=x", MarkError::Secret),
        ("LD_PRELOAD=x", MarkError::ReservedVariable(Reserved::Loader)),
        ("XDG_CONFIG_HOME=/x", MarkError::ReservedVariable(Reserved::Ours)),
        ("HOME=/x", MarkError::ReservedVariable(Reserved::Ours)),
        ("HTTPS_PROXY=http://x", MarkError::ReservedVariable(Reserved::Proxy)),
        ("1X=x", MarkError::Variable),
        ("X", MarkError::Variable),
        ("X=\n", MarkError::Value),
    ] {
        assert_eq!(text.parse::<Variable>(), Err(error), "{text}");
    }
}
