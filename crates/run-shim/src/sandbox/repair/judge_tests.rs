use std::io::Write;
use std::process::{Command, Stdio};

use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

const OLD: &str = "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = /srv/origin.git\n\
                   [branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n";

fn refused(added: &str) -> String {
    match judge(OLD.as_bytes(), format!("{OLD}{added}").as_bytes()) {
        Judgement::Refused(reason) => reason,
        Judgement::Accepted(_) => panic!("accepted: {added}"),
    }
}

#[test]
fn ordinary_changes_of_git_and_editors_may_stay() {
    for added in [
        "[branch \"x/y\"]\n\tremote = origin\n\tmerge = refs/heads/x/y\n",
        "[branch \"x\"]\n\tremote = .\n\trebase = merges\n\tpushRemote = origin\n",
        "[branch \"x\"]\n\tvscode-merge-base = origin/main\n\tgithub-pr-owner-number = \"a#b-c#12\"\n",
        "[lfs]\n\trepositoryformatversion = 0\n[lfs \"https://git.example.org/x\"]\n\tlocksverify = true\n",
        "# a comment\n[branch \"x\"]\n",
    ] {
        let new = format!("{OLD}{added}").into_bytes();
        assert_eq!(judge(OLD.as_bytes(), &new), Judgement::Accepted(new.clone()), "{added}");
    }
    let without_branch = OLD.split("[branch").next().unwrap().as_bytes().to_vec();
    assert_eq!(judge(OLD.as_bytes(), &without_branch), Judgement::Accepted(without_branch.clone()));
}

#[test]
fn every_other_change_is_refused_and_named() {
    for (added, reason) in [
        ("[core]\n\tfsmonitor = ./x\n", "`core.fsmonitor` changed"),
        ("[user]\n\tname = x\n", "`user.name` changed"),
        ("[include]\n\tpath = ../x\n", "`include.path` changed"),
        ("[core]\n\tbare = true\n", "`core.bare` changed"),
        ("[core]\n\tbare = false\n", "the order of its settings changed"),
        (
            "[remote \"new\"]\n\turl = ../x\n[branch \"x\"]\n\tremote = new\n",
            "`remote.new.url` changed",
        ),
        ("[branch \"x\"]\n\tremote = ../x\n", "`branch.x.remote` became `../x`"),
        ("[branch \"x\"]\n\tremote = unknown\n", "`branch.x.remote` became `unknown`"),
        ("[branch \"x\"]\n\tremote\n", "`branch.x.remote` became ``"),
        (
            "[branch \"x\"]\n\tmerge = refs/heads/../x\n",
            "`branch.x.merge` became `refs/heads/../x`",
        ),
        ("[branch \"x\"]\n\tmerge = refs/heads/-x\n", "`branch.x.merge` became `refs/heads/-x`"),
        (
            "[branch \"x\"]\n\tvscode-merge-base = \"a\\nb\"\n",
            "`branch.x.vscode-merge-base` became `a\\nb`",
        ),
        ("[branch \"x\"]\n\tmergeoptions = -s x\n", "`branch.x.mergeoptions` changed"),
        ("[branch \"x y\"]\n\tremote = origin\n", "`branch.x y.remote` changed"),
        ("[lfs]\n\tcustomtransfer.x.path = x\n", "its line 9 is not plain git configuration"),
        ("[lfs \"customtransfer.x\"]\n\tpath = x\n", "`lfs.customtransfer.x.path` changed"),
        (
            "[url \"https://me:secret@example.org/\"]\n\tinsteadOf = x\n",
            "`url.….insteadof` changed",
        ),
        ("[lfs \"x\"]\n\taccess = ntlm\n", "`lfs.x.access` became `ntlm`"),
    ] {
        assert_eq!(refused(added), reason, "{added}");
    }
}

#[test]
fn text_that_git_reads_in_two_ways_or_not_at_all_is_refused() {
    for added in
        ["[core]\n\tx = a\0b\n", "\u{feff}", "[core\n", "x\n=", "[a]\nb = \"c\n", "[a]\nb = c\td\n"]
    {
        assert!(refused(added).contains("is not plain git configuration"), "{added:?}");
    }
    let marked = [b"\xef\xbb\xbf", OLD.as_bytes()].concat();
    assert!(matches!(judge(OLD.as_bytes(), &marked), Judgement::Refused(_)));
}

/// The settings that git itself reads, or `None` if it refuses the text.
fn as_git_reads(text: &[u8]) -> Option<Vec<Setting>> {
    let mut git = Command::new("git")
        .args(["config", "--no-includes", "-f", "-", "--list", "-z"])
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Git may stop at an error before it has read everything.
    git.stdin.take().unwrap().write_all(text).ok();
    let output = git.wait_with_output().unwrap();
    let entries = output.stdout.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
    let setting = |entry: &[u8]| match entry.iter().position(|byte| *byte == b'\n') {
        Some(end) => {
            Setting { name: entry[..end].to_vec(), value: Some(entry[end + 1..].to_vec()) }
        }
        None => Setting { name: entry.to_vec(), value: None },
    };
    output.status.success().then(|| entries.map(setting).collect())
}

/// Texts that are nearly configurations.
fn texts() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop::sample::select(vec![
        "[core]",
        "[branch \"a b\"]",
        "[branch \"x\"]",
        "[a.B]",
        "[A \"\\\"\\\\\"]",
        "[]",
        "[a",
        "]",
        "\"",
        "\\",
        "\\\n",
        "\\n",
        "\\t",
        "\\b",
        "\\q",
        "\n",
        "\r\n",
        "\r",
        " ",
        "\t",
        "=",
        " = ",
        "key",
        "Key-2",
        "remote",
        "merge",
        "refs/heads/x",
        "origin",
        "#",
        ";",
        "# c\n",
        ".",
        "-",
        "é",
        "\u{b}",
        "1",
        "\n[core]\n\tx = ",
        "\n[branch \"x\"]\n\tremote = ",
        "\u{feff}",
    ]);
    prop::collection::vec(pieces, 0..24).prop_map(|pieces| pieces.concat().into_bytes())
}

fn without_listed(all: &[Setting]) -> Vec<Setting> {
    let is_listed = |name: &[u8]| {
        let name = String::from_utf8_lossy(name).into_owned();
        let key = name.rsplit('.').next().unwrap_or_default().to_owned();
        let branch = ["remote", "pushremote", "merge", "rebase", "github-pr-owner-number"];
        let bases = ["vscode-merge-base", "gh-merge-base", "gk-merge-base", "gk-merge-target"];
        let lfs = ["repositoryformatversion", "locksverify", "access"];
        name.starts_with("branch.") && (branch.contains(&&*key) || bases.contains(&&*key))
            || name.starts_with("lfs.") && lfs.contains(&&*key)
    };
    all.iter().filter(|setting| !is_listed(&setting.name)).cloned().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn git_reads_every_accepted_text_in_the_same_way(text in texts()) {
        if let Ok(read) = settings(&text) {
            prop_assert_eq!(Some(read), as_git_reads(&text));
        }
    }

    #[test]
    fn no_accepted_text_differs_for_git_in_a_setting_outside_the_list(added in texts(), at in 0..=OLD.len()) {
        let new = [&OLD.as_bytes()[..at], &added, &OLD.as_bytes()[at..]].concat();
        if let Judgement::Accepted(accepted) = judge(OLD.as_bytes(), &new) {
            prop_assert_eq!(&accepted, &new);
            let (old, new) = (as_git_reads(OLD.as_bytes()).unwrap(), as_git_reads(&accepted).unwrap());
            prop_assert_eq!(without_listed(&old), without_listed(&new));
            let remote = |setting: &&Setting| setting.name.ends_with(b"remote") && setting.name.starts_with(b"branch.");
            for setting in new.iter().filter(remote) {
                let value = setting.value.clone().unwrap();
                prop_assert!(value == b"origin" || value == b".", "{:?}", value);
            }
        }
    }
}
