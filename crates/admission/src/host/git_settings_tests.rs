use std::process::Command;

use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;
use crate::admit::tests::Stage;

fn stage_with_git() -> Stage {
    Stage::new(&[("GIT_CONFIG_NOSYSTEM", "1"), ("PATH", "/usr/bin:/bin")])
}

fn home(stage: &Stage) -> PathBuf {
    stage.host.environment.home.clone()
}

fn settings(stage: &Stage) -> GitSettings {
    GitSettings::of(&stage.host, &stage.workspace())
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// The settings in these texts, as git reads them, with one process for all of them.
fn as_git_reads(texts: &[String]) -> Vec<(String, String)> {
    let place = tempfile::tempdir().unwrap();
    let mut all = String::new();
    for (n, text) in texts.iter().enumerate() {
        fs::write(place.path().join(n.to_string()), text).unwrap();
        all += &format!("[include]\npath = {n}\n");
    }
    fs::write(place.path().join("all"), all).unwrap();
    let mut git = Command::new("git");
    git.args(["config", "--list", "--includes", "-z", "-f"]).arg(place.path().join("all"));
    let output = git.output().unwrap();
    assert!(output.status.success(), "{texts:?}");
    let listed = String::from_utf8(output.stdout).unwrap();
    let settings = listed.split_terminator('\0').map(|text| text.split_once('\n').unwrap());
    settings
        .filter(|(key, _)| *key != "include.path")
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

#[test]
fn the_copied_settings_are_those_that_apply_in_the_workspace_and_start_no_program() {
    let stage = stage_with_git();
    let config = "[core]\n\thooksPath = /evil\n\teditor = evil\n\texcludesFile = ~/mine\n\tautocrlf = input\n\
        [includeIf \"gitdir:~/work/\"]\n\tpath = work.inc\n[credential]\n\thelper = evil\n\
        [filter \"lfs\"]\n\tclean = git-lfs clean -- %f\n\trequired = true\n[filter \"other\"]\n\tclean = evil\n";
    write(&home(&stage).join(".gitconfig"), config);
    write(
        &home(&stage).join("work.inc"),
        "[user]\n\tname = \"Ada \\\"L\\\" # ; \\\\\"\n\temail = ada@work\n",
    );
    write(&home(&stage).join("mine"), "*.bak");
    write(&home(&stage).join(".config/git/attributes"), "*.bin filter=lfs\n");
    let git = Command::new("git").args(["init", "-q"]).current_dir(stage.workspace()).status();
    assert!(git.unwrap().success());
    write(
        &stage.workspace().join(".git/config"),
        "[user]\n\tname = Repository\n[core]\n\tbare = false\n",
    );

    let GitSettings { files, remarks } = settings(&stage);
    let read: Vec<(String, String)> = as_git_reads(&[files[CONFIG].clone()]);
    let expected = [
        ("core.autocrlf", "input"),
        ("filter.lfs.clean", "git-lfs clean -- %f"),
        ("filter.lfs.required", "true"),
        ("safe.directory", "*"),
        ("user.email", "ada@work"),
        ("user.name", "Ada \"L\" # ; \\"),
    ];
    assert_eq!(read, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
    assert_eq!(files[IGNORE], "*.bak\n/.cursor/mcp.json\n/.cursor/cli.json\n");
    assert_eq!(files[ATTRIBUTES], "*.bin filter=lfs\n");
    assert_eq!(remarks, []);
}

#[test]
fn unusual_git_lfs_commands_are_not_copied_at_all() {
    let lfs = |clean: &str| {
        let settings = [("filter.lfs.clean", clean), ("filter.lfs.required", "true")];
        let settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned()));
        config_text(&BTreeMap::from(settings)).contains("lfs")
    };
    assert!(lfs("git-lfs clean -- %f"));
    assert!(!lfs("git-lfs clean -- %f; evil"));
}

#[test]
fn without_settings_commits_have_the_agents_identity() {
    let stage = stage_with_git();
    let GitSettings { files, remarks } = settings(&stage);
    assert!(files[CONFIG].contains("Cursor Agent"), "{files:?}");
    assert_eq!((files[IGNORE].as_str(), files.len()), (OURS, 2));
    assert_eq!(remarks, []);
    // The same happens without git, and with settings that git cannot read.
    assert_eq!(settings(&Stage::new(&[])).files, files);
    let stage = stage_with_git();
    write(&home(&stage).join(".gitconfig"), "[broken\n");
    let GitSettings { files, remarks } = settings(&stage);
    assert!(files[CONFIG].contains("Cursor Agent"));
    let [Remark::Warning(said)] = remarks.as_slice() else { panic!("{remarks:?}") };
    assert!(said.contains("bad config"), "{said}");
}

#[test]
fn a_rules_file_may_be_a_link_but_not_into_the_workspace_or_to_a_fifo_or_a_large_file() {
    let stage = stage_with_git();
    let (home, workspace) = (home(&stage), stage.workspace());
    let ignore = home.join(".config/git/ignore");
    write(&home.join("dot/files/rules"), "*.a\n");
    write(&home.join(".ssh/key"), "secret\n");
    std::os::unix::fs::symlink("dot", home.join("d")).unwrap();
    std::os::unix::fs::symlink(home.join(".ssh"), workspace.join("x")).unwrap();
    let refused = |stage: &Stage| {
        let GitSettings { files, remarks } = settings(stage);
        assert_eq!((files[IGNORE].as_str(), remarks.len()), (OURS, 1), "{remarks:?}");
    };
    let link = |target: &Path| {
        fs::remove_file(&ignore).ok();
        fs::create_dir_all(ignore.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, &ignore).unwrap();
    };
    link(Path::new("../../d/files/../files/rules"));
    assert_eq!(settings(&stage).files[IGNORE], format!("*.a\n{OURS}"));
    link(&workspace.join("x/key"));
    refused(&stage);
    link(Path::new("ignore"));
    refused(&stage);
    link(&home.join("large"));
    fs::write(home.join("large"), vec![b'\n'; MOST_RULES as usize + 1]).unwrap();
    refused(&stage);
    link(&home.join("fifo"));
    nix::unistd::mkfifo(&home.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    refused(&stage);
}

#[test]
fn signing_is_mentioned_if_the_workspace_has_it_on() {
    let signs = |listed: &[u8]| Answer::parse(listed).signs;
    assert!(signs(b"global\0commit.gpgsign\ntrue\0"));
    assert!(signs(b"local\0tag.gpgsign\0"));
    assert!(!signs(b"global\0commit.gpgsign\ntrue\0local\0commit.gpgsign\nno\0"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    #[test]
    fn no_key_outside_the_closed_list_is_ever_written(
        answers in prop::collection::vec(prop::collection::vec((
            prop::sample::select(vec!["system", "global", "local", "command"]),
            prop_oneof![
                prop::sample::select([DATA.as_slice(), &LFS.map(|(key, _)| key)].concat()),
                prop::sample::select(vec!["core.hookspath", "core.editor", "include.path", "filter.x.clean"]),
            ],
            prop_oneof![
                "\\PC{0,20}",
                "[\"\\\\\\]\\[\\n\\r\\t#;= a]{0,20}",
                prop::sample::select(vec!["\"\n[core]\n\thooksPath = /evil", "git-lfs clean -- %f"]).prop_map(str::to_owned),
            ],
        ), 0..12), 64),
    ) {
        let text = |settings: Vec<(&str, &str, String)>| {
            let listed: String = settings
                .iter()
                .map(|(scope, key, value)| format!("{scope}\0{key}\n{value}\0"))
                .collect();
            config_text(&Answer::parse(listed.as_bytes()).of_user)
        };
        let texts: Vec<String> = answers.into_iter().map(text).collect();
        let mut n_names = 0;
        for (key, value) in as_git_reads(&texts) {
            n_names += usize::from(key == "user.name");
            let lfs = LFS.iter().find(|(known, _)| *known == key);
            let is_known = DATA.contains(&key.as_str())
                || (key == "safe.directory" && value == "*")
                || lfs.is_some_and(|(_, words)| words.contains(&value.as_str()));
            prop_assert!(is_known, "{key} = {value}");
        }
        prop_assert_eq!(n_names, texts.len());
    }
}
