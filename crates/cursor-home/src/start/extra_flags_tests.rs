use super::*;
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use std::os::unix::ffi::OsStringExt;

fn check(words: &[&str]) -> Result<ExtraFlags, ExtraFlagError> {
    ExtraFlags::check(words.iter().map(OsString::from))
}

fn accepts(words: &[&str]) {
    let accepted = check(words).unwrap();
    assert_eq!(accepted.words(), words.iter().map(OsString::from).collect::<Vec<_>>());
}

#[track_caller]
fn refused_flag(words: &[&str]) -> String {
    match check(words) {
        Err(ExtraFlagError::Refused { flag, .. }) => flag,
        other => panic!("{words:?}: {other:?}"),
    }
}

#[test]
fn harmless_flags_pass_as_they_were_written() {
    accepts(&[]);
    accepts(&["--single-turn", "--background-shell-timeout", "30", "--add-dir=/srv/x"]);
    accepts(&["-H", "X-Team: a", "-HX-Team: b", "--header", "X-Team: c", "-e", "https://e"]);
}

#[test]
fn a_header_that_carries_credentials_is_refused_without_being_repeated() {
    for words in [
        &["-H", "Authorization: Bearer s3cret"] as &[&str],
        &["-HAuthorization: Bearer s3cret"],
        &["-H=proxy-authorization: s3cret"],
        &["--header", "X-Api-Key:s3cret"],
        &["--header=cookie: s3cret"],
        &["--header= X-Auth-Token : s3cret"],
    ] {
        let Err(error @ ExtraFlagError::Refused { .. }) = check(words) else {
            panic!("{words:?} passed");
        };
        let said = error.to_string();
        assert!(said.contains("CURSOR_API_KEY") && !said.contains("s3cret"), "{said}");
    }
}

#[test]
fn a_flag_newer_than_this_build_passes_in_one_word() {
    accepts(&["--brand-new", "--brand-newer=7"]);
    assert_eq!(check(&["--brand-new", "7"]), Err(ExtraFlagError::Positional("7".into())));
}

#[test]
fn flags_that_caretaker_relies_on_are_refused_in_every_spelling() {
    for word in [
        "-p",
        "--print",
        "--output-format",
        "--output-format=text",
        "--resume",
        "--resume=-1",
        "--continue",
        "--new-session-id=x",
        "--workspace",
        "--workspace=/",
        "--sandbox=enabled",
        "--trust",
        "--approve-mcps",
        "-f",
        "--force",
        "--yolo",
        "--auto-review",
        "--mode=ask",
        "--plan",
        "--model",
        "--api-key=k",
        "--auth-token",
        "--data-dir=/d",
        "--stream-partial-output",
        "-w",
        "--worktree=x",
        "-c",
        "--cloud",
        "-b",
        "--background",
        "--system-prompt=f",
        "--exclude-workspace-context",
        "--conversation-history-file=f",
        "-v",
        "--version",
        "-h",
        "--help",
        "--list-models",
        "--printenv",
        "--disable-project-configs",
        "-k",
        "--insecure",
    ] {
        let name = word.split('=').next().unwrap();
        assert_eq!(refused_flag(&[word]), name);
    }
}

#[test]
fn the_reason_is_part_of_the_message() {
    assert_eq!(
        check(&["--api-key", "k"]).unwrap_err().to_string(),
        "the agent flag `--api-key` is not accepted: every process can read a secret on a command line; use \
         `CURSOR_API_KEY`"
    );
}

#[test]
fn short_flags_written_together_hide_nothing() {
    assert_eq!(refused_flag(&["-pf"]), "-p");
    assert_eq!(refused_flag(&["-fp"]), "-f");
    assert_eq!(refused_flag(&["-wname"]), "-w");
    assert_eq!(check(&["-xp"]), Err(ExtraFlagError::UnknownShort("-xp".into())));
    assert_eq!(check(&["-x"]), Err(ExtraFlagError::UnknownShort("-x".into())));
}

#[test]
fn a_short_letter_is_not_a_long_flag() {
    accepts(&["--p"]);
    assert_eq!(check(&["-single-turn"]), Err(ExtraFlagError::UnknownShort("-single-turn".into())));
}

#[test]
fn a_refused_flag_cannot_hide_as_a_value() {
    for words in [["--add-dir", "--print"], ["-H", "-p"], ["--endpoint", "--"]] {
        let (flag, value) = (words[0].to_owned(), words[1].into());
        assert_eq!(check(&words), Err(ExtraFlagError::SwallowsFlag { flag, value }));
    }
    assert_eq!(refused_flag(&["--add-dir", "/x", "--print"]), "--print");
    assert_eq!(refused_flag(&["--single-turn", "--print"]), "--print");
    assert_eq!(check(&["--add-dir"]), Err(ExtraFlagError::MissingValue("--add-dir".into())));
}

#[test]
fn words_that_would_join_the_prompt_are_refused() {
    for word in ["fix it", "login", "", "-", "--", "--=x"] {
        assert_eq!(check(&[word]), Err(ExtraFlagError::Positional(word.into())), "{word:?}");
    }
    assert_eq!(check(&["--single-turn", "ls"]), Err(ExtraFlagError::Positional("ls".into())));
}

#[test]
fn a_switch_takes_no_value() {
    assert_eq!(
        check(&["--single-turn=yes"]),
        Err(ExtraFlagError::UnexpectedValue("--single-turn".into()))
    );
}

#[test]
fn values_may_be_any_bytes() {
    let words = [OsString::from("--add-dir"), OsString::from_vec(b"/srv/\xff".to_vec())];
    assert_eq!(ExtraFlags::check(words.clone()).unwrap().words(), words);
    let joined = [OsString::from_vec(b"--add-dir=/srv/\xff".to_vec())];
    assert_eq!(ExtraFlags::check(joined.clone()).unwrap().words(), joined);
    let hidden = [OsString::from_vec(b"--resume=\xff".to_vec())];
    assert!(matches!(ExtraFlags::check(hidden), Err(ExtraFlagError::Refused { .. })));
}

#[test]
fn every_spelling_is_listed_once() {
    let mut spellings: Vec<&str> =
        FLAGS.iter().flat_map(|(names, _)| names.iter().copied()).collect();
    let n_listed = spellings.len();
    spellings.sort_unstable();
    spellings.dedup();
    assert_eq!(spellings.len(), n_listed);
}

/// Parses words like the agent's own parser: a flag with a value swallows any next word.
fn flags_and_positionals_as_the_agent_reads_them(words: &[String]) -> (Vec<String>, Vec<String>) {
    let (mut flags, mut positionals) = (Vec::new(), Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--" {
            positionals.extend(words.by_ref().cloned());
        } else if word.starts_with("--") {
            let (name, value) = word
                .split_once('=')
                .map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
            if value.is_none()
                && matches!(rule_of(name), Some(Rule::TakesValue | Rule::TakesHeader))
            {
                words.next();
            }
            flags.push(name.to_owned());
        } else if let Some(mut cluster) = word.strip_prefix('-').filter(|rest| !rest.is_empty()) {
            while let Some(letter) = cluster.chars().next() {
                cluster = &cluster[letter.len_utf8()..];
                let flag = format!("-{letter}");
                let takes_value =
                    matches!(rule_of(&flag), Some(Rule::TakesValue | Rule::TakesHeader));
                flags.push(flag);
                if takes_value {
                    if cluster.is_empty() {
                        words.next();
                    }
                    break;
                }
            }
        } else {
            positionals.push(word.clone());
        }
    }
    (flags, positionals)
}

proptest! {
    #[test]
    fn accepted_flags_contain_no_refused_flag_and_no_prompt(
        words in proptest::collection::vec(
            prop_oneof![
                "-[pfwcbHexvh]{1,3}",
                "--(print|resume|header|add-dir|single-turn|api-key|new)(=-?[pf])?",
                "[pf]|-|--|",
            ],
            0..5,
        ),
    ) {
        if let Ok(accepted) = ExtraFlags::check(words.iter().map(OsString::from)) {
            prop_assert_eq!(accepted.words(), words.iter().map(OsString::from).collect::<Vec<_>>());
            let (flags, positionals) = flags_and_positionals_as_the_agent_reads_them(&words);
            prop_assert_eq!(positionals, Vec::<String>::new());
            for flag in flags {
                prop_assert!(!matches!(rule_of(&flag), Some(Rule::Refused(_))), "{} in {:?}", flag, words);
            }
        }
    }

    #[test]
    fn any_bytes_can_be_checked(words in proptest::collection::vec(proptest::collection::vec(1u8..=255, 0..6), 0..4)) {
        ExtraFlags::check(words.into_iter().map(OsString::from_vec)).ok();
    }
}
