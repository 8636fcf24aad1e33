use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

fn read(text: &str) -> Vec<(String, String)> {
    settings(text).into_iter().map(|setting| (setting.name, setting.value)).collect()
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[test]
fn settings_are_read_as_git_reads_them() {
    let text = "# a comment\n[core]\n\tbare = false\n  HooksPath = \".husky/_ \" ; why\n\tfsmonitor\n\
                [includeIf \"gitdir:~/x\\\"y/\"] path = ../a \\\n b # more\n[remote.Origin]\nurl=a\\\\b\n[a]b=";
    assert_eq!(
        read(text),
        [
            pair("core.bare", "false"),
            pair("core.hookspath", ".husky/_ "),
            pair("core.fsmonitor", "true"),
            pair("includeif.gitdir:~/x\"y/.path", "../a  b"),
            pair("remote.origin.url", "a\\b"),
            pair("a.b", ""),
        ]
    );
}

#[test]
fn paths_that_git_obeys_or_starts_are_named_and_other_paths_are_not() {
    let text = "[include] path = ../shared\n[includeIf \"onbranch:x\"] path = /ws/b\n[core] hooksPath = hooks\n\
                [core] fsmonitor = 'tools/watch' -v\n[alias] go = !sh ./go\n[filter \"x\"] clean = ~/bin/clean\n\
                [remote \"o\"] url = other\n[user] name = README";
    let named = named_by(&settings(text), Path::new("/ws/.git"), Path::new("/ws"));
    let path = |path: &str| PathBuf::from(path);
    assert_eq!(
        named,
        [
            Named::Include(path("/ws/.git/../shared")),
            Named::Include(path("/ws/b")),
            Named::Hooks(path("/ws/hooks")),
            Named::Program(path("/ws/tools/watch")),
            Named::Program(path("/ws/sh")),
            Named::Program(path("/ws/./go")),
        ]
    );
}

proptest! {
    #[test]
    fn no_text_makes_it_fail(text in any::<String>()) {
        let settings = settings(&text);
        named_by(&settings, Path::new("/a"), Path::new("/b"));
    }

    #[test]
    fn a_plain_setting_is_found_after_any_text(before in "[a-z0-9 =#;\"\\\\]{0,40}") {
        let text = format!("{}\n\n[core]\nhooksPath = here\n", before.replace(['"', '\\'], ""));
        prop_assert!(read(&text).contains(&pair("core.hookspath", "here")));
    }
}
