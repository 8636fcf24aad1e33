//! Refusals. They create nothing.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use sandbox_plan::{PlanError, Profile, WorkspaceError, builtin_profiles, plan};

use crate::scene::{Scene, run_variable};

fn scene() -> Scene {
    let mut scene = Scene::new("src/project");
    scene.program(&["/bin/true"]);
    scene
}

/// Changes a good request, and returns the reason for its refusal.
fn refusal(change: impl FnOnce(&mut Scene)) -> PlanError {
    let mut scene = scene();
    change(&mut scene);
    let before = everything_below(scene.host.path());
    let refusal = plan(&scene.request).unwrap_err();
    assert_eq!(everything_below(scene.host.path()), before, "{refusal}");
    refusal
}

fn everything_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap().flatten() {
        found.push(entry.path());
        if entry.file_type().unwrap().is_dir() {
            found.extend(everything_below(&entry.path()));
        }
    }
    found.sort();
    found
}

macro_rules! refused {
    ($change:expr, $pattern:pat $(if $guard:expr)?) => {{
        let refusal = refusal($change);
        assert!(matches!(&refusal, $pattern $(if $guard)?), "{refusal:?}");
    }};
}

#[test]
fn the_good_request_is_planned() {
    plan(&scene().request).unwrap();
}

#[test]
fn a_profile_without_a_sandbox_has_no_plan() {
    let (name, text) = builtin_profiles()[1];
    refused!(|s| s.request.profile = Profile::parse(name, text).unwrap(), PlanError::NoSandbox);
}

#[test]
fn paths_must_be_absolute_and_plain() {
    refused!(|s| s.request.dot_cursor = "dotcursor".into(), PlanError::NotPlain(_));
    refused!(|s| s.request.data_root = s.home().join("a/../b"), PlanError::NotPlain(_));
    refused!(|s| s.request.home = s.home().join("."), PlanError::NotPlain(_));
    refused!(|s| s.request.expose = vec!["/usr//bin".into()], PlanError::NotPlain(_));
    refused!(|s| s.request.inside_sockets = "/a\0b".into(), PlanError::NulByte(_));
    refused!(|s| s.program(&["/bin/true", "a\0b"]), PlanError::NulByte(_));
    refused!(|s| s.program(&["true"]), PlanError::Program(_));
    refused!(|s| s.program(&[]), PlanError::Program(_));
    refused!(|s| s.program(&["/opt/agent"]), PlanError::ProgramNotShown(_));
}

#[test]
fn a_plan_makes_the_usual_workspace_checks() {
    let workspace = |change: fn(&mut Scene)| match refusal(change) {
        PlanError::Workspace(err) => err,
        other => panic!("{other:?}"),
    };
    let err = workspace(|s| s.request.workspace = s.home().to_owned());
    assert!(matches!(err, WorkspaceError::Home));
    let err = workspace(|s| s.request.workspace = s.home().join(".local"));
    assert!(matches!(err, WorkspaceError::Contains { .. }));
    let err = workspace(|s| {
        symlink("src", s.home().join("link")).unwrap();
        s.request.workspace = s.home().join("link/project");
    });
    assert!(matches!(err, WorkspaceError::NotPhysical { .. }));
    let err = workspace(|s| symlink("/oldroot/tmp", s.in_workspace(".cursor")).unwrap());
    assert!(matches!(err, WorkspaceError::DotCursor(_)));
    for (link, below) in
        [(".vscode", None), (".git/hooks", Some(".git")), (".git/config", Some(".git"))]
    {
        let err = refusal(|s| {
            if let Some(below) = below {
                fs::create_dir(s.in_workspace(below)).unwrap();
            }
            symlink("/etc", s.in_workspace(link)).unwrap();
        });
        let PlanError::Workspace(WorkspaceError::ProtectedSymlink(path)) = err else {
            panic!("{err:?}")
        };
        assert!(path.ends_with(link), "{path:?}");
    }
    // A link on the path to a protected file.
    let err = workspace(|s| {
        fs::create_dir_all(s.in_workspace(".git/real")).unwrap();
        fs::write(s.in_workspace(".git/real/attributes"), "").unwrap();
        symlink("real", s.in_workspace(".git/info")).unwrap();
    });
    assert!(matches!(err, WorkspaceError::ProtectedSymlink(_)), "{err:?}");
}

#[test]
fn a_home_must_not_be_a_system_directory_or_a_link() {
    for home in ["/", "/tmp", "/usr/home", "/etc", "/dev/null", "/proc/1"] {
        // The plan also refuses paths inside that are not below this home, but it checks the home first.
        refused!(
            |s| s.request.home = home.into(),
            PlanError::HomeUnusable(_) | PlanError::Workspace(_)
        );
    }
    refused!(
        |s| {
            let link = s.host.path().join("home-link");
            symlink(s.home(), &link).unwrap();
            s.request.home = fs::canonicalize(s.host.path()).unwrap().join("home-link");
        },
        PlanError::HomeNotPhysical { .. }
    );
}

#[test]
fn the_files_that_the_agent_runs_from_must_exist_and_be_out_of_its_reach() {
    refused!(|s| s.request.expose.push("/nowhere/agent".into()), PlanError::ExposedMissing(_));
    refused!(
        |s| {
            s.write(&s.in_workspace("agent"), "");
            s.request.expose.push(s.in_workspace("agent"));
        },
        PlanError::ExposedInWorkspace(_)
    );
    refused!(
        |s| {
            s.write(&s.in_workspace("agent"), "");
            symlink(s.in_workspace("agent"), s.home().join("agent")).unwrap();
            s.request.expose.push(s.home().join("agent"));
        },
        PlanError::ExposedInWorkspace(_)
    );
}

#[test]
fn paths_that_contain_the_home_or_our_state_are_not_shown() {
    for wide in ["/", "/tmp", "/run", "/etc", "/proc"] {
        refused!(|s| s.request.expose.push(wide.into()), PlanError::ExposedTooWide { .. });
    }
    refused!(|s| s.request.expose.push(s.home().to_owned()), PlanError::ExposedTooWide { .. });
    refused!(|s| s.request.expose.push(s.home().join(".local")), PlanError::ExposedTooWide { .. });
    refused!(
        |s| {
            let text = "extends = \"default\"\n[tools]\nexpose = [\"~/.local/state\"]\n";
            s.request.profile = Profile::parse("mine", text).unwrap();
        },
        PlanError::ExposedTooWide { .. }
    );
    refused!(
        |s| {
            symlink(s.home(), s.host.path().join("link")).unwrap();
            s.request.expose.push(fs::canonicalize(s.host.path()).unwrap().join("link"));
        },
        PlanError::ExposedTooWide { .. }
    );
}

#[test]
fn the_runs_own_directories_must_exist_and_belong_to_the_user() {
    refused!(|s| s.request.dot_cursor = s.home().join("none"), PlanError::RunDirectoryMissing(_));
    refused!(
        |s| {
            s.write(&s.home().join("file"), "");
            s.request.inside_sockets = s.home().join("file");
        },
        PlanError::RunDirectoryKind { .. }
    );
    if rustix::process::getuid().is_root() {
        refused!(
            |s| std::os::unix::fs::chown(&s.request.data_root, Some(1), None).unwrap(),
            PlanError::RunDirectoryOwner { owner: 1, .. }
        );
    } else {
        refused!(
            |s| s.request.data_root = "/usr".into(),
            PlanError::RunDirectoryOwner { owner: 0, .. }
        );
    }
}

#[test]
fn private_files_stay_in_the_home_and_are_not_covered() {
    for path in ["/etc/passwd", "../x", "a/../../x", "", ".", "a\0b"] {
        refused!(|s| s.private_file(path, "", 0o600), PlanError::PrivateFile(_));
    }
    refused!(
        |s| {
            s.private_file("twice", "", 0o600);
            s.private_file("twice", "", 0o600);
        },
        PlanError::PrivateFile(_)
    );
    refused!(|s| s.private_file("src/project/x", "", 0o600), PlanError::Covered { .. });
    refused!(
        |s| {
            s.write(&s.home().join(".nvm/file"), "");
            s.private_file(".nvm/x", "", 0o600);
        },
        PlanError::Covered { .. }
    );
    refused!(
        |s| s.request.chats.views[0].inside = "/elsewhere".into(),
        PlanError::ChatsOutsideHome(_)
    );
}

#[test]
fn impossible_variable_names_and_values_are_refused() {
    for name in ["", "A=B", "A\0"] {
        refused!(|s| s.request.env.push(run_variable(name, "x")), PlanError::VariableName(_));
    }
    refused!(|s| s.request.env.push(run_variable("A", "x\0y")), PlanError::NulByte(name) if name == "A");
}

#[test]
fn a_plan_that_bubblewrap_could_not_read_is_refused() {
    refused!(
        |s| {
            let many = (0..3000).map(|n| run_variable(&format!("V{n}"), "x"));
            s.request.env.extend(many);
        },
        PlanError::TooManyArguments(_)
    );
}
