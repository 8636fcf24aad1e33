use pretty_assertions::assert_eq;
use proptest::collection::vec;
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

/// A home with a repository in it.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(home.path("repo/.git")).unwrap();
        fs::create_dir_all(home.path("repo/packages/one")).unwrap();
        home
    }

    fn path(&self, below: &str) -> PathBuf {
        self.0.path().join(below)
    }

    fn write(&self, below: &str, content: &str) {
        fs::create_dir_all(self.path(below).parent().unwrap()).unwrap();
        fs::write(self.path(below), content).unwrap();
    }

    fn present(&self) -> Result<AgentPolicy, CommandError> {
        let projects = projects(&self.path("repo/packages/one"), None);
        present(&self.path(".cursor"), self.0.path(), &projects)
    }
}

const DENY_A: &str = r#"{"permissions": {"allow": ["Shell(x)"], "deny": ["Shell(a)"]}}"#;
const DENY_A_B: &str =
    r#"{"permissions": {"allow": ["Shell(y)"], "deny": ["Shell(a)", "Shell(b)"]}}"#;

#[test]
fn the_user_and_every_directory_of_the_repository_deny_and_only_the_user_allows() {
    let home = Home::new();
    assert_eq!(home.present().unwrap(), AgentPolicy::default());
    home.write("dotfiles/cli-config.json", DENY_A);
    fs::create_dir(home.path(".cursor")).unwrap();
    let link = home.path(".cursor/cli-config.json");
    std::os::unix::fs::symlink(home.path("dotfiles/cli-config.json"), link).unwrap();
    home.write("repo/.cursor/cli.json", DENY_A_B);
    home.write("repo/packages/one/.cursor/cli.json", r#"{"permissions": {"deny": ["Read(c)"]}}"#);
    // This directory is outside the repository.
    home.write(".cursor/cli.json", r#"{"permissions": {"deny": ["Read(d)"]}}"#);
    let policy = home.present().unwrap();
    assert_eq!(policy.deny, ["Shell(a)", "Read(c)", "Shell(b)"]);
    assert_eq!(policy.allow, ["Shell(x)"]);
}

#[test]
fn a_damaged_file_stops_the_run_and_names_itself() {
    for file in [".cursor/cli-config.json", "repo/.cursor/cli.json"] {
        let home = Home::new();
        home.write(file, "{ \"permissions\": ");
        let error = home.present().unwrap_err();
        assert!(error.text().contains(file), "{}", error.text());
        assert!(error.text().contains("because it is not valid JSON"), "{}", error.text());
        fs::remove_file(home.path(file)).unwrap();
        nix::unistd::mkfifo(&home.path(file), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(home.present().is_err(), "a FIFO neither blocks nor counts as no rules");
    }
}

#[test]
fn files_that_the_private_home_does_not_have_are_named() {
    let home = Home::new();
    home.write(".cursor/hooks.json", r#"{"version": 1, "hooks": {}}"#);
    fs::create_dir_all(home.path(".cursor/rules")).unwrap();
    assert_eq!(home.present().unwrap().left_out, ["~/.cursor/rules"]);
    home.write(".cursor/hooks.json", r#"{"hooks": {"stop": [{"command": "x"}]}}"#);
    let policy = home.present().unwrap();
    assert_eq!(policy.left_out, ["~/.cursor/hooks.json", "~/.cursor/rules"]);
    let profile = |name: &str, text| Profile::parse(name, text).unwrap();
    let strict = profile("strict", "extends = \"strict\"");
    assert!(check(Some(&policy), &strict).is_err());
    assert!(check(Some(&AgentPolicy::default()), &strict).is_ok());
    assert!(check(Some(&policy), &profile("default", "extends = \"default\"")).is_ok());
}

proptest! {
    /// Every rule that denied something still does, and nothing new is allowed.
    #[test]
    fn a_continued_run_is_never_weaker(
        now in (vec("[a-d]", 0..4), vec("[a-d]", 0..4)), before in (vec("[a-d]", 0..4), vec("[a-d]", 0..4)),
    ) {
        let policy = |(deny, allow): (Vec<String>, Vec<String>)| AgentPolicy { deny, allow, ..AgentPolicy::default() };
        let (now, before) = (policy(now), policy(before));
        let policy = continued(now.clone(), Some(&before));
        for rule in now.deny.iter().chain(&before.deny) {
            prop_assert!(policy.deny.contains(rule));
        }
        for rule in &policy.allow {
            prop_assert!(now.allow.contains(rule) && before.allow.contains(rule));
        }
        prop_assert_eq!(continued(now.clone(), None), now);
    }
}
