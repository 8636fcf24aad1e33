use std::os::unix::fs::{PermissionsExt, symlink};

use pretty_assertions::assert_eq;
use run_protocol::BytesPath;
use tempfile::TempDir;

use super::*;
use crate::host::environment::tests::environment_of;

/// Our own program.
const OWN: &str = "/usr/bin/caretaker";

/// A home directory with programs that print a given text.
struct Host {
    root: TempDir,
    environment: Environment,
}

impl Host {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let bin = root.path().join("bin");
        let home = root.path().join("home");
        fs::create_dir(&home).unwrap();
        fs::create_dir(&bin).unwrap();
        let environment = environment_of(&[("HOME", &home), ("PATH", &bin)]);
        Self { root, environment }
    }

    fn path(&self, below: &str) -> PathBuf {
        fs::canonicalize(self.root.path()).unwrap().join(below)
    }

    fn program(&self, below: &str, help: &str, version: &str, mode: u32) -> PathBuf {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let script = format!(
            "#!/bin/sh\ncase \"$1\" in --help) echo '{help}';; --version) echo '{version}';; esac\n"
        );
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn find(&self, choice: &AgentChoice) -> Result<AgentProgram, CommandError> {
        find(choice, &self.environment, Path::new(OWN), &[])
    }
}

#[test]
fn an_installed_agent_is_pinned_to_its_version_without_being_asked() {
    let host = Host::new();
    let directory = "home/.local/share/cursor-agent/versions/2026.10.01-e373342";
    // If Caretaker ran this program, it would print another version.
    let program = host.program(&format!("{directory}/cursor-agent"), "", "wrong", 0o755);
    symlink(&program, host.path("bin/agent")).unwrap();
    assert_eq!(
        host.find(&AgentChoice::Installed).unwrap(),
        AgentProgram {
            kind: AgentKind::Cursor,
            program: BytesPath(program),
            leading_arguments: vec![],
            expose: vec![BytesPath(host.path(directory))],
            kept: None,
            version: Some("2026.10.01-e373342".to_owned()),
        }
    );
}

#[test]
fn an_agent_from_another_vendor_is_skipped() {
    let host = Host::new();
    host.program("bin/agent", "Grok Build", "1.0", 0o755);
    let theirs = host.find(&AgentChoice::Installed).unwrap_err();
    assert_eq!(theirs.exit_code(), ExitCode::AgentNotFound);
    assert!(theirs.text().contains("https://cursor.com/install"));
    assert!(theirs.text().contains("--agent simulated"));

    let cursors = host.program("home/.local/bin/agent", "Start the Cursor Agent", "1.2.3", 0o755);
    let found = host.find(&AgentChoice::Installed).unwrap();
    assert_eq!(
        (found.program, found.expose, found.version.as_deref()),
        (BytesPath(cursors.clone()), vec![BytesPath(cursors)], Some("1.2.3"))
    );
}

#[test]
fn a_program_that_cannot_be_executed_has_its_own_exit_code() {
    let host = Host::new();
    let path = host.program("bin/cursor-agent", "", "", 0o644);
    for choice in [AgentChoice::Installed, AgentChoice::Named(path), AgentChoice::Named("/".into())]
    {
        let error = host.find(&choice).unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::AgentNotExecutable, "{choice:?}");
    }
    let missing = host.find(&AgentChoice::Named(host.path("bin/no"))).unwrap_err();
    assert_eq!(missing.exit_code(), ExitCode::AgentNotFound);
}

#[test]
fn an_agent_inside_the_workspace_is_refused_and_not_executed() {
    let host = Host::new();
    let witness = host.path("witness");
    let workspace = host.path("workspace");
    let inside = host.program("workspace/agent", "", "", 0o755);
    fs::write(&inside, format!("#!/bin/sh\ntouch '{}'\n", witness.display())).unwrap();
    symlink(&inside, host.path("bin/cursor-agent")).unwrap();
    for choice in [
        AgentChoice::Installed,
        AgentChoice::Named(inside),
        AgentChoice::Named(host.path("bin/cursor-agent")),
    ] {
        let error = find(&choice, &host.environment, Path::new(OWN), &[&workspace]).unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::Usage, "{choice:?}");
    }
    assert!(!witness.exists());

    // A link in the workspace is refused too, even if its program is elsewhere.
    let outside = host.program("elsewhere/agent", "", "1.0", 0o755);
    symlink(&outside, workspace.join("link")).unwrap();
    let link = AgentChoice::Named(workspace.join("link"));
    assert!(find(&link, &host.environment, Path::new(OWN), &[&workspace]).is_err());
    // A path that only passes through the workspace is allowed.
    let around = AgentChoice::Named(workspace.join("../elsewhere/agent"));
    let found = find(&around, &host.environment, Path::new(OWN), &[&workspace]).unwrap();
    assert_eq!(found.program, BytesPath(outside));
}

#[test]
fn the_simulated_agent_is_this_very_program() {
    let host = Host::new();
    let choice = AgentChoice::of(Some(Path::new("simulated")), None, &host.environment);
    let found = host.find(&choice).unwrap();
    assert_eq!((found.kind, found.program), (AgentKind::Simulated, BytesPath(OWN.into())));
    assert_eq!(found.leading_arguments, ["simulated-agent"]);
}

#[test]
fn a_flag_wins_over_the_configuration() {
    let environment = environment_of(&[]);
    let flag = Path::new("bin/agent");
    let config = Path::new("/opt/agent");
    assert_eq!(
        AgentChoice::of(Some(flag), Some(config), &environment),
        AgentChoice::Named("/bin/agent".into())
    );
    assert_eq!(
        AgentChoice::of(None, Some(config), &environment),
        AgentChoice::Named("/opt/agent".into())
    );
    assert_eq!(AgentChoice::of(None, None, &environment), AgentChoice::Installed);
}

#[test]
fn odd_answers_do_not_count_as_a_version() {
    assert_eq!(version_in("2026.10.01-e373342\n"), Some("2026.10.01-e373342".to_owned()));
    assert_eq!(version_in("1.2.3\nmore"), Some("1.2.3".to_owned()));
    for text in ["", "two words", "\u{1b}[2J", &"x".repeat(65)] {
        assert_eq!(version_in(text), None, "{text:?}");
    }
}
