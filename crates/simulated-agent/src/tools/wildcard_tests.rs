use proptest::prelude::*;

use super::*;

/// The definition, slow and plainly right.
fn matches_by_definition(pattern: &[u8], text: &[u8]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some((b'*', rest)) => {
            (0..=text.len()).any(|taken| matches_by_definition(rest, &text[taken..]))
        }
        Some((literal, rest)) => {
            text.first() == Some(literal) && matches_by_definition(rest, &text[1..])
        }
    }
}

#[test]
fn a_star_matches_anything_and_the_rest_is_literal() {
    for (pattern, text, expected) in [
        ("*", "", true),
        ("ls", "ls", true),
        ("ls", "lsof", false),
        ("log*", "log --oneline", true),
        ("*.example.com", "api.example.com", true),
        ("*.example.com", "example.com", false),
        ("a?c", "abc", false),
        ("**/secret/**", "/a/b/secret/c", true),
    ] {
        assert_eq!(matches(pattern, text), expected, "{pattern} against {text}");
    }
}

#[test]
fn path_patterns_keep_single_stars_inside_one_segment() {
    for (pattern, path, expected) in [
        ("*.rs", "main.rs", true),
        ("*.rs", "src/main.rs", false),
        ("**/*.rs", "main.rs", true),
        ("**/*.rs", "src/deep/main.rs", true),
        ("src/**", "src/a/b", true),
        ("src/**", "lib/a", false),
        ("src/**/test_*.py", "src/test_a.py", true),
        ("src/**/test_*.py", "src/x/y/test_a.py", true),
        ("**", "anything/at/all", true),
    ] {
        assert_eq!(matches_path(pattern, path), expected, "{pattern} against {path}");
    }
}

proptest! {
    #[test]
    fn matching_agrees_with_the_definition(pattern in "[ab*]{0,8}", text in "[ab]{0,10}") {
        prop_assert_eq!(matches(&pattern, &text), matches_by_definition(pattern.as_bytes(), text.as_bytes()));
    }

    #[test]
    fn every_path_matches_itself(path in "[a-c]{1,3}(/[a-c]{1,3}){0,4}") {
        prop_assert!(matches_path(&path, &path));
        let anywhere = format!("**/{}", path.rsplit('/').next().unwrap());
        prop_assert!(matches_path(&anywhere, &path));
    }
}
