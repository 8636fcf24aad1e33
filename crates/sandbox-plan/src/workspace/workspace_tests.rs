use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{PermissionsExt, symlink};

use pretty_assertions::assert_eq;
use rustix::fs::CWD;
use tempfile::TempDir;

use super::*;

/// A home with a project and Caretaker's state in it.
struct Host {
    _directory: TempDir,
    home: PathBuf,
    ours: Vec<PathBuf>,
    project: PathBuf,
}

fn host() -> Host {
    let directory = tempfile::tempdir().unwrap();
    let home = fs::canonicalize(directory.path()).unwrap().join("ada");
    let (project, state) = (home.join("src/project"), home.join(".local/state/caretaker"));
    fs::create_dir_all(&project).unwrap();
    fs::create_dir_all(state.join("runs")).unwrap();
    Host { _directory: directory, home, ours: vec![state], project }
}

impl Host {
    fn inspect(&self, path: impl AsRef<Path>) -> Result<Workspace, WorkspaceError> {
        self.inspect_as(rustix::process::getuid().as_raw(), path)
    }

    fn inspect_as(&self, uid: u32, path: impl AsRef<Path>) -> Result<Workspace, WorkspaceError> {
        let surroundings = Surroundings { uid, home: &self.home, ours: &self.ours };
        Workspace::inspect(path.as_ref(), surroundings)
    }

    fn refusal(&self, path: impl AsRef<Path>) -> WorkspaceError {
        self.inspect(path).unwrap_err()
    }
}

fn fifo(path: &Path) {
    rustix::fs::mkfifoat(CWD, path, Mode::from_raw_mode(0o600)).unwrap();
}

#[test]
fn a_project_passes_and_its_path_is_physical() {
    let host = host();
    let workspace = host.inspect(&host.project).unwrap();
    assert_eq!(workspace.path(), host.project);
    assert_eq!(workspace.dot_cursor(), DotCursor::Missing);
    assert_eq!(workspace.git(), &GitLayout::None);

    symlink(host.home.join("src"), host.home.join("link")).unwrap();
    let behind_link = host.inspect(host.home.join("link/project/")).unwrap();
    assert_eq!(behind_link.path(), host.project);
    assert_eq!(behind_link.identity(), workspace.identity());
}

#[test]
fn invalid_paths_links_and_paths_that_are_not_directories_are_refused() {
    let host = host();
    symlink(&host.project, host.home.join("link")).unwrap();
    fs::write(host.home.join("file"), "").unwrap();
    let not_text = host.home.join(std::ffi::OsString::from_vec(b"caf\xe9".to_vec()));
    fs::create_dir(&not_text).unwrap();
    fifo(&host.home.join("fifo"));

    assert!(matches!(host.refusal("project"), WorkspaceError::NotAbsolute(_)));
    assert!(matches!(host.refusal("/a\0b"), WorkspaceError::NulByte));
    assert!(matches!(host.refusal(&not_text), WorkspaceError::NotUtf8(_)));
    assert!(matches!(host.refusal(host.home.join("none")), WorkspaceError::Missing(_)));
    assert!(matches!(host.refusal(host.home.join("link")), WorkspaceError::Symlink(_)));
    assert!(matches!(host.refusal(host.home.join("link/")), WorkspaceError::Symlink(_)));
    assert!(matches!(host.refusal(host.home.join("file")), WorkspaceError::NotADirectory(_)));
    assert!(matches!(host.refusal(host.home.join("file/x")), WorkspaceError::NotADirectory(_)));
    assert!(matches!(host.refusal(host.home.join("fifo")), WorkspaceError::NotADirectory(_)));
}

#[test]
fn places_that_hold_more_than_a_project_are_refused() {
    let host = host();
    assert!(matches!(host.refusal("/"), WorkspaceError::Root));
    assert!(matches!(host.refusal(&host.home), WorkspaceError::Home));
    assert!(matches!(host.refusal(host.home.join("src/..")), WorkspaceError::Home));
    for system in ["/usr", "/usr/lib", "/etc", "/proc", "/proc/sys", "/dev", "/tmp", "/var", "/run"]
    {
        assert!(matches!(host.refusal(system), WorkspaceError::System(_)), "{system}");
    }
    let above = host.home.parent().unwrap();
    assert!(matches!(host.refusal(above), WorkspaceError::Contains { .. }));
    for above in [".local", ".local/state", ".local/state/caretaker"] {
        let refusal = host.refusal(host.home.join(above));
        assert!(matches!(refusal, WorkspaceError::Contains { .. }), "{above}");
    }
    fs::create_dir_all(host.home.join(".cursor/worktrees/repo/one")).unwrap();
    let refusal = host.refusal(host.home.join(".cursor"));
    assert!(matches!(refusal, WorkspaceError::Contains { .. }));
    let refusal = host.refusal(host.home.join(".local/state/caretaker/runs"));
    assert!(matches!(refusal, WorkspaceError::InsideOurs { .. }));
    host.inspect(host.home.join(".cursor/worktrees/repo/one")).unwrap();
}

#[test]
fn our_state_is_found_behind_a_link_too() {
    let mut host = host();
    let real = host.home.join("src/project/state");
    fs::create_dir(&real).unwrap();
    symlink(&real, host.home.join("state")).unwrap();
    host.ours = vec![host.home.join("state")];
    assert!(matches!(host.refusal(&host.project), WorkspaceError::Contains { .. }));
}

#[test]
fn another_users_directory_or_one_without_write_permission_is_refused() {
    let host = host();
    let uid = rustix::process::getuid().as_raw();
    let refusal = host.inspect_as(uid + 1, &host.project).unwrap_err();
    assert!(matches!(refusal, WorkspaceError::NotOurs { owner, .. } if owner == uid));
    fs::set_permissions(&host.project, fs::Permissions::from_mode(0o500)).unwrap();
    let refusal = host.refusal(&host.project);
    assert!(matches!(refusal, WorkspaceError::Unusable { mode: 0o500, .. }), "{refusal}");
}

#[test]
fn a_hostile_dot_cursor_is_refused_and_nothing_is_created() {
    type Make = fn(&Path);
    let cases: [(&str, Make); 7] = [
        ("symlink to a host directory", |dot| {
            symlink("/oldroot/tmp/caretaker-victim", dot).unwrap()
        }),
        ("symlink within the workspace", |dot| symlink("other", dot).unwrap()),
        ("file", |dot| fs::write(dot, "").unwrap()),
        ("FIFO", fifo),
        ("symlinked mcp.json", |dot| {
            fs::create_dir(dot).unwrap();
            symlink("/oldroot/tmp/caretaker-victim", dot.join("mcp.json")).unwrap();
        }),
        ("directory as mcp.json", |dot| fs::create_dir_all(dot.join("mcp.json")).unwrap()),
        ("FIFO as mcp.json", |dot| {
            fs::create_dir(dot).unwrap();
            fifo(&dot.join("mcp.json"));
        }),
    ];
    for (name, make) in cases {
        let host = host();
        fs::create_dir(host.project.join("other")).unwrap();
        make(&host.project.join(".cursor"));
        let refusal = host.refusal(&host.project);
        let about_mcp_json = name.contains("mcp.json");
        match refusal {
            WorkspaceError::DotCursor(_) => assert!(!about_mcp_json, "{name}"),
            WorkspaceError::McpJson(_) => assert!(about_mcp_json, "{name}"),
            other => panic!("{name}: {other}"),
        }
        assert_eq!(fs::read_dir(&host.project).unwrap().count(), 2, "{name}");
        assert!(!Path::new("/tmp/caretaker-victim").exists(), "{name}");
    }
}

#[test]
fn the_repositorys_own_dot_cursor_passes() {
    let host = host();
    fs::create_dir_all(host.project.join(".cursor/rules")).unwrap();
    fs::write(host.project.join(".cursor/mcp.json"), "{}").unwrap();
    assert_eq!(host.inspect(&host.project).unwrap().dot_cursor(), DotCursor::Directory);
}

#[test]
fn an_odd_dot_git_is_refused() {
    let cases: [fn(&Path); 2] = [|git| symlink("/somewhere/.git", git).unwrap(), fifo];
    for make in cases {
        let host = host();
        make(&host.project.join(".git"));
        assert!(matches!(host.refusal(&host.project), WorkspaceError::Git(_)));
    }
}
