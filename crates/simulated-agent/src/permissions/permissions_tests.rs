use std::fs;

use cursor_home::HostEnvironment;

use super::*;

fn rules(policy: ApprovalPolicy, allow: &[&str], deny: &[&str]) -> Permissions {
    Permissions::new(policy, allow, deny, Path::new("/ws"), Path::new("/home/user"))
}

fn shell(permissions: &Permissions, command: &str) -> Verdict {
    permissions.shell(&ParsedCommand::parse(command))
}

#[test]
fn a_shell_runs_only_if_every_program_in_it_is_listed() {
    let permissions =
        rules(ApprovalPolicy::AllowList, &["Shell(ls)", "Bash(git:log*)", "Shell(echo)"], &[]);
    for (command, expected) in [
        ("ls", Verdict::Allowed),
        ("ls -la /", Verdict::Allowed),
        ("ls | echo x && ls", Verdict::Allowed),
        ("git log --oneline", Verdict::Allowed),
        ("git push", Verdict::NotAllowed),
        ("lsof", Verdict::NotAllowed),
        ("./ls", Verdict::NotAllowed),
        ("ls; rm -rf x", Verdict::NotAllowed),
        ("echo $(rm x)", Verdict::NotAllowed),
        ("echo `ls`", Verdict::NotAllowed),
        ("ls 'open", Verdict::NotAllowed),
        ("", Verdict::NotAllowed),
        ("X=1", Verdict::NotAllowed),
    ] {
        assert_eq!(shell(&permissions, command), expected, "{command}");
    }
}

#[test]
fn force_allows_everything_that_is_not_denied() {
    let permissions = rules(
        ApprovalPolicy::Force,
        &[],
        &["Shell(rm)", "Mcp(files:delete*)", "WebFetch(*.evil.com)"],
    );
    assert_eq!(shell(&permissions, "make all"), Verdict::Allowed);
    assert_eq!(shell(&permissions, "for x in *; do echo $x; done"), Verdict::Allowed);
    for command in ["rm x", "/bin/rm x", "\\rm x", "ls && rm x", "echo $(rm x)", "FOO=1 'rm' x"] {
        assert_eq!(shell(&permissions, command), Verdict::Denied, "{command}");
    }
    assert_eq!(permissions.mcp("files", "read"), Verdict::Allowed);
    assert_eq!(permissions.mcp("Files", "Delete_All"), Verdict::Denied);
    assert_eq!(permissions.web_fetch("https://user@a.EVIL.com:8080/x"), Verdict::Denied);
    assert_eq!(permissions.web_fetch("https://example.com"), Verdict::Allowed);
}

#[test]
fn a_deny_entry_wins_over_an_allow_entry() {
    let permissions = rules(ApprovalPolicy::AllowList, &["Shell(git)"], &["Shell(git:push*)"]);
    assert_eq!(shell(&permissions, "git status"), Verdict::Allowed);
    assert_eq!(shell(&permissions, "git push origin"), Verdict::Denied);
}

#[test]
fn a_star_matches_any_text_and_the_rest_is_literal() {
    for (pattern, domain, expected) in [
        ("*", "docs.rs", true),
        ("*.example.com", "api.example.com", true),
        ("*.example.com", "example.com", false),
        ("d?cs.rs", "docs.rs", false),
        ("docs.rs", "docsxrs", false),
    ] {
        let permissions =
            rules(ApprovalPolicy::AllowList, &[format!("WebFetch({pattern})").as_str()], &[]);
        let verdict = if expected { Verdict::Allowed } else { Verdict::NotAllowed };
        assert_eq!(permissions.web_fetch(&format!("https://{domain}/")), verdict, "{pattern}");
    }
}

#[test]
fn servers_and_domains_need_an_entry_without_force() {
    let permissions = rules(
        ApprovalPolicy::AllowList,
        &["Mcp(notes:*)", "WebFetch(docs.rs)", "Mcp(comma,form)"],
        &[],
    );
    assert_eq!(permissions.mcp("notes", "add"), Verdict::Allowed);
    assert_eq!(permissions.mcp("comma", "form"), Verdict::NotAllowed);
    assert_eq!(permissions.web_fetch("https://docs.rs/serde"), Verdict::Allowed);
    assert_eq!(permissions.web_fetch("https://example.com/docs.rs"), Verdict::NotAllowed);
}

#[test]
fn files_are_open_except_where_an_entry_denies_them() {
    let deny = ["Read(.env*)", "Write(src/**)", "Write(~/.ssh/*)", "Read(/etc/shadow)"];
    let permissions = rules(ApprovalPolicy::AllowList, &[], &deny);
    for (path, read, write) in [
        ("/ws/a.txt", Verdict::Allowed, Verdict::Allowed),
        ("/ws/.env.local", Verdict::Denied, Verdict::Allowed),
        ("/ws/src/deep/main.rs", Verdict::Allowed, Verdict::Denied),
        ("/ws/other/../src/main.rs", Verdict::Allowed, Verdict::Denied),
        ("/home/user/.ssh/id", Verdict::Allowed, Verdict::Denied),
        ("/etc/shadow", Verdict::Denied, Verdict::Allowed),
        ("/ws/deep/.cursorignore", Verdict::Allowed, Verdict::Denied),
    ] {
        assert_eq!(permissions.read(Path::new(path)), read, "reading {path}");
        assert_eq!(permissions.write(Path::new(path)), write, "writing {path}");
    }
}

#[test]
fn read_only_modes_change_no_file_but_run_harmless_commands() {
    let permissions = rules(ApprovalPolicy::ReadOnly, &[], &[]);
    assert_eq!(permissions.write(Path::new("/ws/a")), Verdict::NotAllowed);
    assert_eq!(permissions.read(Path::new("/ws/a")), Verdict::Allowed);
    assert_eq!(shell(&permissions, "cat a | wc -l"), Verdict::Allowed);
    assert_eq!(shell(&permissions, "cat a > b"), Verdict::NotAllowed);
    assert_eq!(shell(&permissions, "touch b"), Verdict::NotAllowed);
}

/// A home, a repository in it and a workspace inside the repository.
struct Machine {
    directory: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { directory: tempfile::tempdir().unwrap() };
        fs::create_dir_all(machine.path("home/.cursor")).unwrap();
        fs::create_dir_all(machine.path("repo/sub/.cursor")).unwrap();
        fs::create_dir_all(machine.path("repo/.cursor")).unwrap();
        machine
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.directory.path().join(relative)
    }

    fn load(&self, policy: ApprovalPolicy) -> Permissions {
        let host =
            HostEnvironment { home: Some(self.path("home").into()), ..HostEnvironment::default() };
        let roots = CursorRoots::of_host(&host).unwrap();
        let repository = WorkspacePath::new(&self.path("repo")).unwrap();
        let workspace = WorkspacePath::new(&self.path("repo/sub")).unwrap();
        Permissions::load(&roots, &repository, &workspace, policy)
    }
}

#[test]
fn without_settings_only_ls_is_listed() {
    let permissions = Machine::new().load(ApprovalPolicy::AllowList);
    assert_eq!(shell(&permissions, "ls"), Verdict::Allowed);
    assert_eq!(shell(&permissions, "cat a"), Verdict::NotAllowed);
}

#[test]
fn deeper_project_files_replace_the_lists_that_they_have() {
    let machine = Machine::new();
    let config = r#"{"version":1,"permissions":{"allow":["Shell(a)"],"deny":["Shell(x)"]}}"#;
    fs::write(machine.path("home/.cursor/cli-config.json"), config).unwrap();
    assert_eq!(shell(&machine.load(ApprovalPolicy::AllowList), "a"), Verdict::Allowed);
    fs::write(machine.path("repo/.cursor/cli.json"), r#"{"permissions":{"allow":["Shell(b)"]}}"#)
        .unwrap();
    let permissions = machine.load(ApprovalPolicy::AllowList);
    assert_eq!(shell(&permissions, "a"), Verdict::NotAllowed);
    assert_eq!(shell(&permissions, "b"), Verdict::Allowed);
    assert_eq!(shell(&permissions, "x"), Verdict::Denied);
    let deepest = r#"{"permissions":{"allow":["Shell(c)"],"deny":[]}}"#;
    fs::write(machine.path("repo/sub/.cursor/cli.json"), deepest).unwrap();
    let permissions = machine.load(ApprovalPolicy::AllowList);
    assert_eq!(shell(&permissions, "b"), Verdict::NotAllowed);
    assert_eq!(shell(&permissions, "c"), Verdict::Allowed);
    assert_eq!(shell(&machine.load(ApprovalPolicy::Force), "x"), Verdict::Allowed);
}

#[test]
fn a_project_file_with_anything_else_in_it_is_ignored() {
    let machine = Machine::new();
    for file in [
        r#"{"permissions":{"allow":["Shell(b)"]},"model":"x"}"#,
        r#"{"permissions":{"allow":["Shell(b)"],"ask":[]}}"#,
        "{",
    ] {
        fs::write(machine.path("repo/.cursor/cli.json"), file).unwrap();
        assert_eq!(
            shell(&machine.load(ApprovalPolicy::AllowList), "b"),
            Verdict::NotAllowed,
            "{file}"
        );
    }
}

#[test]
fn the_users_other_permission_settings_count_too() {
    let machine = Machine::new();
    let config = r#"{"approvalMode":"unrestricted","webFetchDomainAllowlist":["docs.rs"]}"#;
    fs::write(machine.path("home/.cursor/permissions.json"), r#"{"mcpAllowlist":["notes:*"]}"#)
        .unwrap();
    assert_eq!(machine.load(ApprovalPolicy::AllowList).mcp("notes", "add"), Verdict::Allowed);
    fs::write(machine.path("home/.cursor/cli-config.json"), config).unwrap();
    assert_eq!(
        machine.load(ApprovalPolicy::ReadOnly).web_fetch("https://docs.rs"),
        Verdict::Allowed
    );
    assert_eq!(shell(&machine.load(ApprovalPolicy::AllowList), "make"), Verdict::Allowed);
    assert_eq!(
        machine.load(ApprovalPolicy::ReadOnly).write(&machine.path("repo/sub/a")),
        Verdict::NotAllowed
    );
}
