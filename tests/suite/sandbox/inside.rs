//! What the agent finds inside: its shell and its sockets.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use pretty_assertions::assert_eq;

use crate::stage::{Stage, assert_exit};

#[test]
fn the_agent_gets_the_users_shell_if_it_is_visible_inside_and_otherwise_bash() {
    let stage = Stage::new();
    let hidden = stage.home().join("private/zsh");
    fs::create_dir(hidden.parent().unwrap()).unwrap();
    fs::copy("/bin/sh", &hidden).unwrap();
    let in_workspace = stage.workspace().join("zsh");
    fs::copy("/bin/sh", &in_workspace).unwrap();
    let shown = stage.home().join(".local/bin/zsh");
    fs::create_dir_all(shown.parent().unwrap()).unwrap();
    fs::copy("/bin/sh", &shown).unwrap();
    let not_a_program = stage.home().join(".local/bin/notes");
    fs::write(&not_a_program, "").unwrap();
    fs::set_permissions(&not_a_program, Permissions::from_mode(0o644)).unwrap();
    for (shell, expected) in [
        (Some("/bin/dash".as_ref()), "/bin/dash".as_ref()),
        (Some(shown.as_path()), shown.as_path()),
        (Some(hidden.as_path()), "/bin/bash".as_ref()),
        (Some(in_workspace.as_path()), "/bin/bash".as_ref()),
        (Some(not_a_program.as_path()), "/bin/bash".as_ref()),
        (Some("/no/such/zsh".as_ref()), "/bin/bash".as_ref()),
        (Some("zsh".as_ref()), "/bin/bash".as_ref()),
        (None, "/bin/bash".as_ref()),
    ] {
        let prompt = "```agent\nshell printenv SHELL > seen\nsay done\n```\n";
        let mut command = stage.caretaker(&["run", "--agent", "simulated", prompt]);
        if let Some(shell) = shell {
            command.env("SHELL", shell);
        }
        assert_exit(&command.output().unwrap(), 0);
        let seen = fs::read_to_string(stage.workspace().join("seen")).unwrap();
        assert_eq!(seen.trim_end(), expected.to_str().unwrap(), "{shell:?}");
    }
}

#[test]
fn the_paths_of_sockets_inside_do_not_depend_on_the_workspaces_name() {
    let stage = Stage::new();
    let workspace = stage.home().join("long-".repeat(36));
    fs::create_dir(&workspace).unwrap();
    let prompt = "```agent\nmcp caretaker whoami {}\nshell find / -type s -not -path '/proc/*' > sockets 2> complaints; true\nsay done\n```\n";
    let mut command = stage.caretaker(&["run", "--agent", "simulated", prompt]);
    let output = command.current_dir(&workspace).output().unwrap();
    assert_exit(&output, 0);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("caretaker: whoami"), "{said}");
    let sockets = fs::read_to_string(workspace.join("sockets")).unwrap();
    assert_eq!(sockets, "/run/caretaker/mcp.sock\n");
}
