//! Every protection that can be removed, and the attempt that then succeeds.

use nix::libc;

/// A protection to remove. Places begin with `~` for the home directory and `./` for the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Off {
    /// An option of bubblewrap.
    Option(&'static str),
    /// A read-only mount becomes writable.
    ReadOnly(&'static str),
    /// A mount is missing.
    Mount(&'static str),
    /// A mount is not made read-only at the end.
    Remount(&'static str),
    /// A memory file system has no size limit.
    Size(&'static str),
    /// A private directory becomes the host's directory at the second path.
    Private(&'static str, &'static str),
    /// A system call filter.
    Filter(&'static str),
    /// One system call, in all filters.
    Call(i64),
    /// The shim's refusal to start or release a run. The shell command makes something in the home directory, `$home`,
    /// that the shim would refuse.
    Refusal(&'static str),
    /// Bubblewrap gets the shim's environment.
    EmptyEnvironment,
    /// The probe starts without our gate, which closes descriptors and sets limits.
    Gate,
}

pub(super) struct Protection {
    pub(super) name: &'static str,
    /// The replay removes all of these at once, because any one of them would stop the attempt.
    pub(super) off: &'static [Off],
    pub(super) attempts: &'static [&'static str],
}

/// The tests never make these attempts without their protection: success would affect the machine itself, or nothing
/// can remove the protection.
pub(super) const EXCLUDED: &[(&str, &str)] = &[
    ("P4a", "core_pattern belongs to the machine; root's code would run on the next crash"),
    ("P4b", "the SysRq key belongs to the machine"),
    ("P4f", "kernel settings belong to the machine"),
    ("L1a", "an unlimited fork bomb would take down the machine"),
    ("L1b", "an unlimited memory bomb would take down the machine"),
    ("S2d", "a program in the kernel affects the machine"),
    ("S2o", "the kernel's log belongs to the machine"),
    ("P3b", "bubblewrap always sets no_new_privs"),
    (
        "C26",
        "Caretaker's own copy follows no link; `without_caretaker_each_trap_would_do_harm` copies as cp does",
    ),
    ("C26b", "Caretaker's own reader follows no link; any other reader gets the text behind it"),
    (
        "K4",
        "the shim's own writer follows no link; the attempt checks that any other would get there",
    ),
];

/// If the repository has this link and no rules, bubblewrap up to 0.11 follows the link to the host's root
/// (CVE-2026-87766).
const LINK: &str = r#"mv "$home/work/project/.cursor" "$home/victim"
ln -s "/oldroot$home/victim" "$home/work/project/.cursor""#;

const SEED: &str = "/run/seed/cargo/registry/cache";
const DEEP_CREDENTIALS: &str = "~/.nvm/versions/node/v20.0.0/etc/npmrc";
const SEED_CREDENTIALS: &str = "/run/seed/cargo/registry/cache/credentials.toml";

/// The user's ignore rules, as the run's own git sees them.
const RULES: &str = "~/.config/git/ignore";

const CAPABILITIES: Off = Off::Option("--cap-drop");
const NESTING: Off = Off::Option("--disable-userns");
const FIRST_PROCESS: Off = Off::Mount("/proc/1");
const FIRST_PROCESS_READ_ONLY: Off = Off::Remount("/proc/1");

/// Attempts whose success the outer host does not show: they change only the run's own memory or directory.
pub(super) const SEEN_INSIDE_ALONE: &[&str] = &["C1a", "C3d", "C4a"];

const fn protection(
    name: &'static str,
    off: &'static [Off],
    attempts: &'static [&'static str],
) -> Protection {
    Protection { name, off, attempts }
}

pub(super) const PROTECTIONS: &[Protection] = &[
    protection("own process namespace", &[Off::Option("--unshare-pid")], &["P1a", "P1b"]),
    protection("own /proc", &[Off::Private("/proc", "/proc")], &["P1a"]),
    protection("own shared memory", &[Off::Option("--unshare-ipc")], &["P8"]),
    protection(
        "own host name",
        &[Off::Option("--unshare-uts"), Off::Option("--hostname")],
        &["P7b"],
    ),
    protection("own network", &[Off::Option("--unshare-net")], &["N1a", "N6a"]),
    protection("no user namespaces", &[NESTING, Off::Call(libc::SYS_unshare)], &["S1a"]),
    protection("no user namespaces", &[NESTING, Off::Call(libc::SYS_clone)], &["S1b"]),
    protection("no hidden flags", &[NESTING, Off::Filter("hidden-arguments")], &["S1c"]),
    protection("no capabilities", &[CAPABILITIES], &["P3a"]),
    protection("no mounts", &[CAPABILITIES, NESTING, Off::Call(libc::SYS_mount)], &["P5c"]),
    protection("no unmounting", &[CAPABILITIES, NESTING, Off::Call(libc::SYS_umount2)], &["P5a"]),
    protection("no chroot", &[CAPABILITIES, Off::Call(libc::SYS_chroot)], &["P5e"]),
    protection("no new mounts", &[CAPABILITIES, NESTING, Off::Call(libc::SYS_fsopen)], &["P5h"]),
    protection(
        "no copied mounts",
        &[CAPABILITIES, NESTING, Off::Call(libc::SYS_open_tree)],
        &["P5i"],
    ),
    protection(
        "no other networks",
        &[CAPABILITIES, NESTING, Off::Call(libc::SYS_unshare)],
        &["S1e"],
    ),
    protection("no raw sockets", &[CAPABILITIES, NESTING], &["S3d"]),
    protection("own terminal session", &[Off::Option("--new-session")], &["S4d"]),
    protection(
        "bubblewrap's own environment is empty, and hidden",
        &[Off::EmptyEnvironment, FIRST_PROCESS, FIRST_PROCESS_READ_ONLY],
        &["P2a"],
    ),
    protection("the first process is hidden", &[FIRST_PROCESS, FIRST_PROCESS_READ_ONLY], &["P2d"]),
    protection(
        "the agent's environment starts empty",
        &[Off::EmptyEnvironment, Off::Option("--clearenv")],
        &["P2c"],
    ),
    protection("descriptors are closed", &[Off::Gate], &["F6a", "P9b"]),
    protection("/usr is read-only", &[Off::ReadOnly("/usr")], &["F3a"]),
    protection("/ is read-only", &[Off::Remount("/")], &["F3b", "F3c"]),
    protection("/dev is read-only", &[Off::Remount("/dev")], &["F3d"]),
    protection("tools are read-only", &[Off::ReadOnly("~/.local/bin")], &["F3g"]),
    protection("credentials are covered", &[Off::Mount("~/.local/bin/.npmrc")], &["K1a"]),
    protection("credentials are covered", &[Off::Mount("~/.local/bin/etc/npmrc")], &["K1b"]),
    protection("credentials are covered", &[Off::Mount(SEED_CREDENTIALS)], &["K1c"]),
    protection("credentials are covered", &[Off::Mount(DEEP_CREDENTIALS)], &["K1e"]),
    protection("the host's cache is read-only", &[Off::ReadOnly(SEED)], &["K2"]),
    protection(
        "a cache belongs to one repository",
        &[Off::Private("~/.cargo/registry", "~/other/cache")],
        &["K3"],
    ),
    protection(
        "the home is private",
        &[Off::Private("~", "~")],
        &["K1d", "F1a", "F1d", "F2b", "F4c", "F5a", "F1j"],
    ),
    protection(
        "tool settings have no credentials",
        &[Off::Private("~", "~"), Off::Mount("~/.npmrc")],
        &["F1k"],
    ),
    protection("parent directories are private", &[Off::Private("~/work", "~/work")], &["F1e"]),
    protection("parent directories are pinned", &[Off::Mount("~/work")], &["C3d"]),
    protection(
        "sessions are private",
        &[Off::Private("the sessions", "the sessions")],
        &["W2a", "W2b"],
    ),
    protection(".cursor is read-only", &[Off::ReadOnly("./.cursor")], &["C1a", "C4a"]),
    protection(".cursor is pinned", &[Off::Mount("./.cursor")], &["C2a"]),
    protection("rules are read-only", &[Off::ReadOnly("./.cursor/rules")], &["C4e"]),
    protection(
        "links are refused, and mounts checked",
        &[Off::Refusal(LINK), Off::Mount("./.cursor/rules")],
        &["C2a"],
    ),
    protection(".git is pinned", &[Off::Mount("./.git")], &["C10"]),
    protection("hooks are read-only", &[Off::Mount("./.git/hooks")], &["C9a", "C9c"]),
    protection("git's configuration is read-only", &[Off::Mount("./.git/config")], &["C9d", "C9f"]),
    protection("git's other configuration", &[Off::Mount("./.git/config.worktree")], &["C9g"]),
    protection("git's attributes", &[Off::Mount("./.git/info/attributes")], &["C9h"]),
    protection("git's info directory is pinned", &[Off::Mount("./.git/info")], &["C9i"]),
    protection("the pointer to git's configuration", &[Off::Mount("./.git/commondir")], &["C17a"]),
    protection(
        "the pointer to a submodule's configuration",
        &[Off::Mount("./.git/modules/lib/commondir")],
        &["C17b"],
    ),
    protection("other worktrees are read-only", &[Off::Mount("./.git/worktrees")], &["C17c"]),
    protection(
        "a submodule's configuration",
        &[Off::Mount("./.git/modules/lib/config")],
        &["C18a"],
    ),
    protection("a submodule's hooks", &[Off::Mount("./.git/modules/lib/hooks")], &["C18b"]),
    protection("submodules are pinned", &[Off::Mount("./.git/modules")], &["C18d"]),
    protection("the pointer to a submodule's repository", &[Off::Mount("./lib/.git")], &["C18e"]),
    protection("a submodule's directory is pinned", &[Off::Mount("./lib")], &["C18f"]),
    protection("nested repositories", &[Off::Mount("./vendor/inner/.git/config")], &["C19a"]),
    protection("nested repositories", &[Off::Mount("./vendor/inner/.git/hooks")], &["C19b"]),
    protection("the parent of nested repositories is pinned", &[Off::Mount("./vendor")], &["C19c"]),
    protection("hooks in another directory", &[Off::Mount("./githooks")], &["C19d"]),
    protection("included configuration", &[Off::Mount("./team.gitconfig")], &["C19e"]),
    protection(
        "configuration that does not exist yet",
        &[Off::Mount("./missing.gitconfig")],
        &["C19f"],
    ),
    protection(".vscode is protected", &[Off::Mount("./.vscode")], &["C15a"]),
    protection(".idea is protected", &[Off::Mount("./.idea")], &["C15c"]),
    protection("*.code-workspace is protected", &[Off::Mount("./all.code-workspace")], &["C15d"]),
    protection(".claude is protected", &[Off::Mount("./.claude")], &["C15e"]),
    protection(".mcp.json is protected", &[Off::Mount("./.mcp.json")], &["C15f"]),
    protection(".cursorignore is protected", &[Off::Mount("./.cursorignore")], &["C15g"]),
    protection(".gitmodules is protected", &[Off::Mount("./.gitmodules")], &["C15h"]),
    protection(".envrc is protected", &[Off::Mount("./.envrc")], &["C15i"]),
    protection("the run's socket is read-only", &[Off::ReadOnly("/run/caretaker")], &["D1a"]),
    protection("no io_uring", &[Off::Call(libc::SYS_io_uring_setup)], &["S2a"]),
    protection("no keyrings", &[Off::Call(libc::SYS_keyctl)], &["S2b"]),
    protection("no new keys", &[Off::Call(libc::SYS_add_key)], &["S2c"]),
    protection("no userfaultfd", &[Off::Call(libc::SYS_userfaultfd)], &["S2e"]),
    protection("no perf", &[Off::Call(libc::SYS_perf_event_open)], &["S2f"]),
    protection("no ptrace", &[Off::Call(libc::SYS_ptrace)], &["S2g"]),
    protection(
        "no reading another process's memory",
        &[Off::Call(libc::SYS_process_vm_readv)],
        &["S2h"],
    ),
    protection(
        "no writing another process's memory",
        &[Off::Call(libc::SYS_process_vm_writev)],
        &["S2i"],
    ),
    protection("no comparing processes", &[Off::Call(libc::SYS_kcmp)], &["S2j"]),
    protection("no copying descriptors", &[Off::Call(libc::SYS_pidfd_getfd)], &["S2k"]),
    protection("no fanotify", &[Off::Call(libc::SYS_fanotify_init)], &["S2l"]),
    protection("no personalities", &[Off::Call(libc::SYS_personality)], &["S2m"]),
    protection("no memory policies", &[Off::Call(libc::SYS_set_mempolicy)], &["S2n"]),
    protection("only some socket families", &[Off::Filter("socket-families")], &["S3a"]),
    protection("no typing into terminals", &[Off::Call(libc::SYS_ioctl)], &["S4a"]),
    // A process gets only the first terminal that it opens as its controlling terminal.
    protection("no typing into terminals", &[Off::Call(libc::SYS_ioctl)], &["S4b"]),
    protection("no set-user-id files", &[Off::Filter("nosuid")], &["P6a", "P6e"]),
    protection("no set-user-id files", &[Off::Call(libc::SYS_fchmod)], &["P6b"]),
    protection("no set-user-id files", &[Off::Call(libc::SYS_fchmodat2)], &["P6c"]),
    protection("no set-user-id files", &[Off::Call(libc::SYS_openat)], &["P6d"]),
    protection("no hidden modes", &[Off::Filter("hidden-arguments")], &["P6f"]),
    protection("/tmp has a size limit", &[Off::Size("/tmp")], &["L1c"]),
    protection("/dev/shm has a size limit", &[Off::Size("/dev/shm")], &["L1d"]),
    protection("the private home has a size limit", &[Off::Size("~")], &["L1e"]),
    protection("/run has a size limit", &[Off::Size("/run")], &["L1f"]),
    protection("parent directories have a size limit", &[Off::Size("~/work")], &["L1g"]),
];

/// For attempts from a worktree that Caretaker made, and from its set-up command.
pub(super) const IN_WORKTREES: &[Protection] = &[
    protection(
        "the home is private, also to the set-up command",
        &[Off::Private("~", "~")],
        &["C27"],
    ),
    protection(
        "hooks are read-only, also to the set-up command",
        &[Off::ReadOnly("./.git")],
        &["C27"],
    ),
    protection(
        "git cannot replace packed-refs",
        &[Off::Mount("/run/repository.git/5.new")],
        &["C28"],
    ),
];

/// For attempts that the user's settings or an earlier run prepared.
pub(super) const AFTER_PREPARATION: &[Protection] = &[
    protection("rules in the workspace are not copied", &[Off::Private(RULES, RULES)], &["C29"]),
    protection(
        "a cache belongs to one repository",
        &[Off::Private("~/.cargo/registry", "another repository's cache")],
        &["K5"],
    ),
];
