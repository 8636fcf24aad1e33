//! C: configuration that programs on the host obey: Cursor, git, editors and other agents.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use crate::attempt::{Answer, Attempt, Evidence};
use crate::tries::{outcome, rename, rename_over, write};
use crate::world::World;

/// The repository's own `.cursor` on the host.
const DOT_CURSOR: Evidence = Evidence::Intact(&["work/project/.cursor", "work/project/.old"]);
const GIT: Evidence = Evidence::Intact(&[
    "work/project/.git/hooks",
    "work/project/.git/config",
    "work/project/.git/config.worktree",
    "work/project/.git/info",
]);

pub(crate) const ATTEMPTS: &[Attempt] = &[
    Attempt {
        id: "C1a",
        does: "writes into the run's mcp.json",
        held_by: &["EROFS"],
        evidence: DOT_CURSOR,
        act: |world| write(&mcp_json(world)),
    },
    Attempt {
        id: "C1b",
        does: "removes the run's mcp.json",
        held_by: &["EROFS", "EBUSY"],
        evidence: DOT_CURSOR,
        act: |world| outcome(fs::remove_file(mcp_json(world)), "it is gone"),
    },
    Attempt {
        id: "C1c",
        does: "changes the mode of the run's mcp.json",
        held_by: &["EROFS"],
        evidence: DOT_CURSOR,
        act: |world| {
            let mode = Permissions::from_mode(0o666);
            outcome(fs::set_permissions(mcp_json(world), mode), "it was changed")
        },
    },
    Attempt {
        id: "C1d",
        does: "hard-links the run's mcp.json to where it can be written",
        held_by: &["EXDEV"],
        evidence: DOT_CURSOR,
        act: |world| {
            let link = world.in_workspace("mcp-link");
            outcome(fs::hard_link(mcp_json(world), link), "it was linked")
        },
    },
    Attempt {
        id: "C1e",
        does: "renames a file of its own over the run's mcp.json",
        held_by: &["EXDEV", "EROFS", "EBUSY"],
        evidence: DOT_CURSOR,
        act: |world| rename_over(&world.in_workspace("own-mcp.json"), &mcp_json(world)),
    },
    Attempt {
        id: "C2a",
        does: "moves .cursor aside and makes its own",
        held_by: &["EBUSY"],
        evidence: DOT_CURSOR,
        act: |world| {
            let (dot_cursor, old) = (world.in_workspace(".cursor"), world.in_workspace(".old"));
            let moved = fs::rename(&dot_cursor, old)
                .and_then(|()| fs::create_dir(&dot_cursor))
                .and_then(|()| fs::write(dot_cursor.join("mcp.json"), "EVIL"));
            outcome(moved, "its own is in place")
        },
    },
    Attempt {
        id: "C3a",
        does: "removes .cursor",
        held_by: &["EBUSY", "EROFS"],
        evidence: DOT_CURSOR,
        act: |world| outcome(fs::remove_dir_all(world.in_workspace(".cursor")), "it is gone"),
    },
    Attempt {
        id: "C3b",
        does: "renames a link over .cursor",
        held_by: &["EBUSY", "EISDIR"],
        evidence: DOT_CURSOR,
        act: |world| {
            let link = world.in_workspace("link-to-tmp");
            fs::remove_file(&link).ok();
            match symlink("/tmp", &link) {
                Ok(()) => rename(&link, &world.in_workspace(".cursor")),
                Err(error) => Answer::NotHere(format!("cannot make a link: {error}")),
            }
        },
    },
    Attempt {
        id: "C3c",
        does: "moves the whole workspace aside",
        held_by: &["EBUSY", "EXDEV"],
        evidence: Evidence::Intact(&["work/moved"]),
        act: |world| rename(&world.workspace, &world.in_home("work/moved")),
    },
    Attempt {
        id: "C3d",
        does: "moves the directory that contains the workspace aside",
        held_by: &["EBUSY", "EXDEV"],
        evidence: Evidence::Intact(&["moved"]),
        act: |world| rename(&world.in_home("work"), &world.in_home("moved")),
    },
    Attempt {
        id: "C4a",
        does: "makes hooks for Cursor",
        held_by: &["EROFS"],
        evidence: DOT_CURSOR,
        act: |world| write(&world.in_workspace(".cursor/hooks.json")),
    },
    Attempt {
        id: "C4b",
        does: "writes permissions for Cursor's sandbox",
        held_by: &["EROFS"],
        evidence: DOT_CURSOR,
        act: |world| write(&world.in_workspace(".cursor/sandbox.json")),
    },
    Attempt {
        id: "C4c",
        does: "writes permissions for Cursor's command line",
        held_by: &["EROFS"],
        evidence: DOT_CURSOR,
        act: |world| write(&world.in_workspace(".cursor/cli.json")),
    },
    Attempt {
        id: "C4d",
        does: "adds a rule that the next agent obeys",
        held_by: &["EROFS"],
        evidence: DOT_CURSOR,
        act: |world| write(&world.in_workspace(".cursor/rules/evil.mdc")),
    },
    Attempt {
        id: "C4e",
        does: "changes one of the repository's rules",
        held_by: &["EROFS"],
        evidence: DOT_CURSOR,
        act: |world| write(&world.in_workspace(".cursor/rules/style.mdc")),
    },
    Attempt {
        id: "C9a",
        does: "makes a git hook",
        held_by: &["EROFS"],
        evidence: GIT,
        act: |world| write(&world.in_workspace(".git/hooks/pre-commit")),
    },
    Attempt {
        id: "C9b",
        does: "changes an existing git hook",
        held_by: &["EROFS"],
        evidence: GIT,
        act: |world| write(&world.in_workspace(".git/hooks/pre-push")),
    },
    Attempt {
        id: "C9c",
        does: "moves the hooks directory aside",
        held_by: &["EBUSY"],
        evidence: GIT,
        act: |world| {
            rename(&world.in_workspace(".git/hooks"), &world.in_workspace(".git/old-hooks"))
        },
    },
    Attempt {
        id: "C9d",
        does: "writes into git's configuration",
        held_by: &["EROFS"],
        evidence: GIT,
        act: |world| write(&world.in_workspace(".git/config")),
    },
    Attempt {
        id: "C9e",
        does: "renames a file of its own over git's configuration",
        held_by: &["EBUSY"],
        evidence: GIT,
        act: |world| {
            let own = world.in_workspace(".git/own-config");
            rename_over(&own, &world.in_workspace(".git/config"))
        },
    },
    Attempt {
        id: "C9f",
        does: "asks git to set core.fsmonitor to its own program",
        held_by: &["git refused"],
        evidence: GIT,
        act: |world| {
            let mut git = Command::new("git");
            git.arg("-C").arg(&world.workspace).args(["config", "core.fsmonitor", "./evil"]);
            match git.output() {
                Ok(output) if output.status.success() => Answer::done("it is configured"),
                Ok(_) => Answer::refused("git refused"),
                Err(error) => Answer::NotHere(format!("git: {error}")),
            }
        },
    },
    Attempt {
        id: "C9g",
        does: "writes into git's configuration for the worktree",
        held_by: &["EROFS"],
        evidence: GIT,
        act: |world| write(&world.in_workspace(".git/config.worktree")),
    },
    Attempt {
        id: "C9h",
        does: "sends files through filters with git's attributes",
        held_by: &["EROFS"],
        evidence: GIT,
        act: |world| write(&world.in_workspace(".git/info/attributes")),
    },
    Attempt {
        id: "C9i",
        does: "moves the directory with git's attributes aside",
        held_by: &["EBUSY"],
        evidence: GIT,
        act: |world| rename(&world.in_workspace(".git/info"), &world.in_workspace(".git/old-info")),
    },
    Attempt {
        id: "C10",
        does: "moves .git aside to make its own",
        held_by: &["EBUSY"],
        evidence: Evidence::Intact(&["work/project/.git/config", "work/project/.old-git"]),
        act: |world| rename(&world.in_workspace(".git"), &world.in_workspace(".old-git")),
    },
    Attempt {
        id: "C15a",
        does: "changes an editor's tasks",
        held_by: &["EROFS"],
        evidence: Evidence::Intact(&["work/project/.vscode"]),
        act: |world| write(&world.in_workspace(".vscode/tasks.json")),
    },
    Attempt {
        id: "C15b",
        does: "moves an editor's settings aside",
        held_by: &["EBUSY"],
        evidence: Evidence::Intact(&["work/project/.vscode", "work/project/.old-vscode"]),
        act: |world| rename(&world.in_workspace(".vscode"), &world.in_workspace(".old-vscode")),
    },
    Attempt {
        id: "C15c",
        does: "changes another editor's run configurations",
        held_by: &["EROFS"],
        evidence: Evidence::Intact(&["work/project/.idea"]),
        act: |world| write(&world.in_workspace(".idea/workspace.xml")),
    },
    Attempt {
        id: "C15d",
        does: "changes an editor's workspace file",
        held_by: &["EROFS"],
        evidence: Evidence::Intact(&["work/project/all.code-workspace"]),
        act: |world| write(&world.in_workspace("all.code-workspace")),
    },
    Attempt {
        id: "C15e",
        does: "changes another agent's settings",
        held_by: &["EROFS"],
        evidence: Evidence::Intact(&["work/project/.claude"]),
        act: |world| write(&world.in_workspace(".claude/settings.json")),
    },
    Attempt {
        id: "C15f",
        does: "adds servers for other agents to .mcp.json",
        held_by: &["EROFS"],
        evidence: Evidence::Intact(&["work/project/.mcp.json"]),
        act: |world| write(&world.in_workspace(".mcp.json")),
    },
    Attempt {
        id: "C15g",
        does: "removes .cursorignore, which says what it may not read",
        held_by: &["EBUSY"],
        evidence: Evidence::Intact(&["work/project/.cursorignore"]),
        act: |world| outcome(fs::remove_file(world.in_workspace(".cursorignore")), "it is gone"),
    },
    Attempt {
        id: "C15h",
        does: "changes .gitmodules",
        held_by: &["EROFS"],
        evidence: Evidence::Intact(&["work/project/.gitmodules"]),
        act: |world| write(&world.in_workspace(".gitmodules")),
    },
    Attempt {
        id: "C15i",
        does: "renames a file of its own over .envrc, which shells execute",
        held_by: &["EBUSY"],
        evidence: Evidence::Intact(&["work/project/.envrc"]),
        act: |world| rename_over(&world.in_workspace("own-envrc"), &world.in_workspace(".envrc")),
    },
    Attempt {
        id: "C17a",
        does: "claims that git's configuration is elsewhere",
        held_by: &["EBUSY"],
        evidence: Evidence::Intact(&["work/project/.git/commondir"]),
        act: |world| {
            rename_over(
                &world.in_workspace(".git/own-common-dir"),
                &world.in_workspace(".git/commondir"),
            )
        },
    },
    Attempt {
        id: "C17b",
        does: "claims that a submodule's configuration is elsewhere",
        held_by: &["EBUSY"],
        evidence: Evidence::Intact(&["work/project/.git/modules/lib/commondir"]),
        act: |world| {
            rename_over(
                &world.in_workspace(".git/modules/lib/own"),
                &world.in_workspace(".git/modules/lib/commondir"),
            )
        },
    },
    Attempt {
        id: "C17c",
        does: "claims that another worktree's configuration is elsewhere",
        held_by: &["EROFS"],
        evidence: Evidence::Intact(&["work/project/.git/worktrees"]),
        act: |world| write(&world.in_workspace(".git/worktrees/other/commondir")),
    },
    Attempt {
        id: "C18a",
        does: "writes into a submodule's configuration",
        held_by: &["EROFS"],
        evidence: Evidence::Intact(&["work/project/.git/modules/lib/config"]),
        act: |world| write(&world.in_workspace(".git/modules/lib/config")),
    },
    Attempt {
        id: "C18b",
        does: "makes a git hook in a submodule",
        held_by: &["EROFS"],
        evidence: Evidence::Intact(&["work/project/.git/modules/lib/hooks"]),
        act: |world| write(&world.in_workspace(".git/modules/lib/hooks/post-checkout")),
    },
    Attempt {
        id: "C18c",
        does: "moves a submodule's repository aside",
        held_by: &["EBUSY", "EROFS"],
        evidence: Evidence::Intact(&[
            "work/project/.git/modules/lib/config",
            "work/project/.git/modules/old",
        ]),
        act: |world| {
            rename(&world.in_workspace(".git/modules/lib"), &world.in_workspace(".git/modules/old"))
        },
    },
    Attempt {
        id: "C18d",
        does: "moves the submodules' repositories aside",
        held_by: &["EBUSY"],
        evidence: Evidence::Intact(&[
            "work/project/.git/modules/lib/config",
            "work/project/.git/old-modules",
        ]),
        act: |world| {
            rename(&world.in_workspace(".git/modules"), &world.in_workspace(".git/old-modules"))
        },
    },
    Attempt {
        id: "C18e",
        does: "points a submodule at another repository",
        held_by: &["EROFS"],
        evidence: Evidence::Intact(&["work/project/lib/.git"]),
        act: |world| write(&world.in_workspace("lib/.git")),
    },
    Attempt {
        id: "C18f",
        does: "moves a submodule aside to make its own",
        held_by: &["EBUSY"],
        evidence: Evidence::Intact(&["work/project/lib/.git", "work/project/old-lib"]),
        act: |world| rename(&world.in_workspace("lib"), &world.in_workspace("old-lib")),
    },
    Attempt {
        id: "C19a",
        does: "writes into the configuration of a nested repository",
        held_by: &["EROFS"],
        evidence: Evidence::Intact(&["work/project/vendor/inner/.git/config"]),
        act: |world| write(&world.in_workspace("vendor/inner/.git/config")),
    },
    Attempt {
        id: "C19b",
        does: "makes a git hook in a nested repository",
        held_by: &["EROFS"],
        evidence: Evidence::Intact(&["work/project/vendor/inner/.git/hooks"]),
        act: |world| write(&world.in_workspace("vendor/inner/.git/hooks/post-checkout")),
    },
    Attempt {
        id: "C19c",
        does: "moves the directory that contains a nested repository aside",
        held_by: &["EBUSY"],
        evidence: Evidence::Intact(&[
            "work/project/vendor/inner/.git/config",
            "work/project/old-vendor",
        ]),
        act: |world| rename(&world.in_workspace("vendor"), &world.in_workspace("old-vendor")),
    },
    Attempt {
        id: "C19d",
        does: "makes a git hook in the directory that core.hooksPath names",
        held_by: &["EROFS"],
        evidence: Evidence::Intact(&["work/project/githooks"]),
        act: |world| write(&world.in_workspace("githooks/post-checkout")),
    },
    Attempt {
        id: "C19e",
        does: "writes into a file that git's configuration includes",
        held_by: &["EROFS"],
        evidence: Evidence::Intact(&["work/project/team.gitconfig"]),
        act: |world| write(&world.in_workspace("team.gitconfig")),
    },
    Attempt {
        id: "C19f",
        does: "creates a missing file that git's configuration includes",
        held_by: &["EBUSY"],
        evidence: Evidence::Intact(&["work/project/missing.gitconfig"]),
        act: |world| {
            rename_over(
                &world.in_workspace("own-missing"),
                &world.in_workspace("missing.gitconfig"),
            )
        },
    },
];

fn mcp_json(world: &World) -> std::path::PathBuf {
    world.in_workspace(".cursor/mcp.json")
}
