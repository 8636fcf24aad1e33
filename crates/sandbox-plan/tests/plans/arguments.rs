//! Bubblewrap's arguments, word for word, and the origin of each part.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use sandbox_plan::{
    EnvVariable, Origin, PlanFds, PlanWarning, Profile, RunDirectories, SandboxPlan, Secrecy,
    VariableSource, builtin_profiles, plan,
};

use crate::scene::{Scene, run_variable};

/// Parts that depend on the host or on the temporary directory.
const OF_THIS_HOST: [&str; 9] = [
    " /etc/",
    " /usr",
    " /bin",
    " /sbin",
    " /lib",
    " /nix",
    "/current-system",
    " HOST ",
    " HOST/home ",
];

fn fds(plan: &SandboxPlan) -> PlanFds {
    let numbers = |from: i32, n: usize| (from..).take(n).collect();
    PlanFds {
        data: numbers(100, plan.data_files().len()),
        seccomp: numbers(200, plan.seccomp_programs().len()),
        json_status: 300,
        block: Some(301),
    }
}

fn words(plan: &SandboxPlan) -> Vec<OsString> {
    let bytes = plan.bwrap_args(&fds(plan));
    assert_eq!(bytes.last(), Some(&0));
    let words = bytes[..bytes.len() - 1].split(|byte| *byte == 0);
    words.map(|word| OsString::from_vec(word.to_vec())).collect()
}

/// Writes one operation per line, with `HOST` for the temporary directory, without parts that depend on the host.
fn operations(plan: &SandboxPlan, scene: &Scene) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in words(plan) {
        let word = redacted(&word.to_string_lossy(), scene);
        // These two belong to the operation that follows them.
        let is_open = |line: &str| {
            let last = line.rsplit(' ').nth(1).unwrap_or(line);
            last == "--size" || last == "--perms"
        };
        match lines.last_mut() {
            Some(line) if !word.starts_with("--") || is_open(line) => {
                *line = format!("{line} {word}")
            }
            _ => lines.push(word),
        }
    }
    lines.retain(|line| !OF_THIS_HOST.iter().any(|part| format!("{line} ").contains(part)));
    // The number of earlier files depends on the host.
    let fd = |number: usize| format!("--file {}", 100 + number);
    let plain =
        |line: &String| (0..100).fold(line.clone(), |line, n| line.replace(&fd(n), "--file FD"));
    lines.iter().map(plain).collect::<Vec<_>>().join("\n")
}

fn redacted(text: &str, scene: &Scene) -> String {
    let root = std::fs::canonicalize(scene.host.path()).unwrap();
    text.replace(root.to_str().unwrap(), "HOST")
}

fn scene() -> Scene {
    let mut scene = Scene::with_profile("src/project", builtin_profiles()[0].1);
    scene.request.profile = Profile::parse("default", builtin_profiles()[0].1).unwrap();
    scene.write(&scene.home().join(".cargo/bin/cargo"), "");
    scene.write(&scene.home().join("agent/versions/1/cursor-agent"), "");
    scene.request.expose.push(scene.home().join("agent/versions/1"));
    for file in
        [".cursor/rules/a.mdc", ".git/hooks/x", ".git/config", ".git/info/attributes", ".envrc"]
    {
        scene.write(&scene.in_workspace(file), "");
    }
    scene.private_file(".cursor/cli-config.json", "{}", 0o600);
    scene.program(&["/bin/agent", "--print"]);
    let (name, value) = ("CURSOR_API_KEY".into(), "key_123".into());
    let (source, secrecy) = (VariableSource::Run, Secrecy::Secret);
    scene.request.env.push(EnvVariable { name, value, source, secrecy });
    scene
}

#[test]
fn the_mounts_are_made_in_this_order() {
    let scene = scene();
    let plan = scene.plan();
    insta::assert_snapshot!(operations(&plan, &scene), @r#"
    --unshare-user
    --unshare-pid
    --unshare-ipc
    --unshare-uts
    --unshare-cgroup-try
    --hostname agent
    --unshare-net
    --disable-userns
    --cap-drop ALL
    --new-session
    --die-with-parent
    --clearenv
    --setenv TMPDIR /tmp
    --setenv HOME HOST/home/ada
    --setenv CURSOR_API_KEY key_123
    --proc /proc
    --size 4096 --perms 0555 --tmpfs /proc/1
    --remount-ro /proc/1
    --ro-bind /proc/sys /proc/sys
    --dev /dev
    --size 67108864 --perms 1777 --tmpfs /dev/shm
    --remount-ro /dev
    --size 1073741824 --perms 1777 --tmpfs /tmp
    --size 1048576 --perms 0755 --tmpfs /run
    --size 1073741824 --perms 0700 --tmpfs HOST/home/ada
    --size 16777216 --perms 0755 --tmpfs HOST/home/ada/src
    --ro-bind HOST/home/ada/.cargo/bin HOST/home/ada/.cargo/bin
    --ro-bind HOST/home/ada/agent/versions/1 HOST/home/ada/agent/versions/1
    --ro-bind HOST/home/ada/.local/state/caretaker/runs/1/inside /run/caretaker
    --perms 0600 --file FD HOST/home/ada/.cursor/cli-config.json
    --bind HOST/home/ada/.local/state/caretaker/runs/1/chats HOST/home/ada/.cursor/chats/bucket
    --bind HOST/home/ada/.local/state/caretaker/runs/1/data HOST/home/ada/.cursor/projects
    --bind HOST/home/ada/.cursor/chats/bucket/session HOST/home/ada/.cursor/chats/bucket/session
    --bind HOST/home/ada/src/project HOST/home/ada/src/project
    --ro-bind HOST/home/ada/.local/state/caretaker/runs/1/dotcursor HOST/home/ada/src/project/.cursor
    --ro-bind HOST/home/ada/src/project/.cursor/rules HOST/home/ada/src/project/.cursor/rules
    --bind HOST/home/ada/src/project/.git HOST/home/ada/src/project/.git
    --ro-bind HOST/home/ada/src/project/.git/hooks HOST/home/ada/src/project/.git/hooks
    --ro-bind HOST/home/ada/src/project/.git/config HOST/home/ada/src/project/.git/config
    --bind HOST/home/ada/src/project/.git/info HOST/home/ada/src/project/.git/info
    --ro-bind HOST/home/ada/src/project/.git/info/attributes HOST/home/ada/src/project/.git/info/attributes
    --ro-bind HOST/home/ada/.local/state/caretaker/runs/1/commondir HOST/home/ada/src/project/.git/commondir
    --ro-bind HOST/home/ada/.local/state/caretaker/runs/1/nothing HOST/home/ada/src/project/.git/worktrees
    --ro-bind HOST/home/ada/src/project/.envrc HOST/home/ada/src/project/.envrc
    --remount-ro /
    --chdir HOST/home/ada/src/project
    --add-seccomp-fd 200
    --add-seccomp-fd 201
    --add-seccomp-fd 202
    --add-seccomp-fd 203
    --json-status-fd 300
    --block-fd 301
    "#);
    let command_line = plan.command_line(9);
    assert_eq!(command_line, ["--args", "9", "--", "/bin/agent", "--print"]);
}

#[test]
fn every_part_names_its_profile_line() {
    let scene = scene();
    let (_, text) = builtin_profiles()[0];
    let origin = |origin: &Origin| match origin {
        Origin::Profile(line) => {
            let number: usize = line.strip_prefix("default.toml:").unwrap().parse().unwrap();
            let line = text.lines().nth(number - 1).unwrap().trim();
            line.split('#').next().unwrap().trim().to_owned()
        }
        other => other.to_string(),
    };
    let explained = scene.plan().explain();
    let lines: Vec<String> = explained
        .iter()
        .map(|part| {
            format!("{} {} <- {}", part.what, redacted(&part.detail, &scene), origin(&part.origin))
        })
        .filter(|line| !OF_THIS_HOST.iter().any(|part| line.contains(part)))
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    namespace its own users <- "user",
    namespace its own processes <- "pid",
    namespace its own shared memory and message queues <- "ipc",
    namespace its own host name <- "uts",
    namespace its own view of control groups <- "cgroup",
    namespace the host is called agent <- hostname = "agent"
    namespace its own loopback, where the shim listens <- mode = "allowlist"
    guard no further user namespaces <- always
    guard no capabilities <- always
    guard no access to the shim's terminal <- always
    guard ends when the shim ends <- always
    guard the environment starts empty <- always
    variable TMPDIR=/tmp <- TMPDIR = "/tmp"
    variable PATH=/usr/local/bin:/usr/bin:/bin <- "PATH",
    variable HOME=HOST/home/ada <- "HOME",
    variable CURSOR_API_KEY=(secret) <- "CURSOR_API_KEY",
    mount its own /proc <- proc = "own"
    mount /proc/1 hidden: its memory is out of reach <- always
    mount /proc/sys read-only <- sysctl = "read-only"
    mount /dev with the few devices that are safe <- dev = "minimal"
    mount /dev/shm empty, in memory, at most 64 MiB <- shm = "64M"
    guard /dev itself is read-only once it is filled <- always
    mount /tmp empty, in memory, at most 1 GiB <- tmp = "1G"
    mount /run empty, in memory, at most 1 MiB <- run = "1M"
    mount HOST/home/ada empty, in memory, at most 1 GiB <- size = "1G"
    mount HOST/home/ada/src empty, in memory, at most 16 MiB <- parents = "16M"
    mount HOST/home/ada/.cargo/bin read-only <- "~/.cargo/bin",
    mount HOST/home/ada/agent/versions/1 read-only <- program = "read-only"
    mount /run/caretaker read-only from HOST/home/ada/.local/state/caretaker/runs/1/inside <- sockets = "read-only"
    file HOST/home/ada/.cursor/cli-config.json written by Caretaker <- this run
    mount HOST/home/ada/.cursor/chats/bucket read-write from HOST/home/ada/.local/state/caretaker/runs/1/chats <- chats = "read-write"
    mount HOST/home/ada/.cursor/projects read-write from HOST/home/ada/.local/state/caretaker/runs/1/data <- data = "read-write"
    mount HOST/home/ada/.cursor/chats/bucket/session read-write <- chats = "read-write"
    mount HOST/home/ada/src/project read-write <- access = "read-write"
    mount HOST/home/ada/src/project/.cursor read-only from HOST/home/ada/.local/state/caretaker/runs/1/dotcursor <- dot_cursor = "read-only"
    mount HOST/home/ada/src/project/.cursor/rules read-only <- "rules",
    mount HOST/home/ada/src/project/.git read-write <- git = "read-write"
    mount HOST/home/ada/src/project/.git/hooks read-only <- "hooks/",
    mount HOST/home/ada/src/project/.git/config read-only <- "config",
    mount HOST/home/ada/src/project/.git/info read-write <- git = "read-write"
    mount HOST/home/ada/src/project/.git/info/attributes read-only <- "info/attributes",
    mount HOST/home/ada/src/project/.git/commondir read-only from HOST/home/ada/.local/state/caretaker/runs/1/commondir <- always
    mount HOST/home/ada/src/project/.git/worktrees read-only from HOST/home/ada/.local/state/caretaker/runs/1/nothing <- always
    mount HOST/home/ada/src/project/.envrc read-only <- ".envrc",
    guard / itself is read-only once it is filled <- always
    guard started in HOST/home/ada/src/project <- this run
    filter system calls in seccomp/base.toml are refused <- "base",
    filter system calls in seccomp/hidden-arguments.toml are refused <- "hidden-arguments",
    filter system calls in seccomp/socket-families.toml are refused <- "socket-families",
    filter system calls in seccomp/nosuid.toml are refused <- "nosuid",
    network api2.cursor.sh may be reached <- "api2.cursor.sh",
    network *.api5.cursor.sh may be reached <- "*.api5.cursor.sh",
    network *.cursor.sh may be reached <- "*.cursor.sh",
    network *.cursor-cdn.com may be reached <- "*.cursor-cdn.com",
    network *.cursorapi.com may be reached <- "*.cursorapi.com",
    "#);
}

#[test]
fn the_users_own_profile_is_named_too() {
    let mut scene = scene();
    let text = "extends = \"default\"\n[home]\nsize = \"2G\"\n";
    scene.request.profile = Profile::parse("mine", text).unwrap();
    let explained = scene.plan().explain();
    let home = redacted(scene.home().to_str().unwrap(), &scene);
    let part = explained.iter().find(|part| part.detail.ends_with("2 GiB")).unwrap();
    assert_eq!(redacted(&part.detail, &scene), format!("{home} empty, in memory, at most 2 GiB"));
    assert_eq!(part.origin.to_string(), "mine.toml:3");
}

#[test]
fn secrets_are_in_the_arguments_but_not_in_the_explanation() {
    let scene = scene();
    let plan = scene.plan();
    assert!(words(&plan).iter().any(|word| word == "key_123"));
    assert!(!plan.command_line(3).iter().any(|word| word == "key_123"));
    assert!(plan.explain().iter().all(|part| !part.detail.contains("key_123")));
    let variable =
        plan.explain().into_iter().find(|part| part.detail.starts_with("CURSOR_API_KEY"));
    assert_eq!(variable.unwrap().detail, "CURSOR_API_KEY=(secret)");
}

#[test]
fn root_gets_a_warning_and_the_filter_against_set_user_id() {
    let mut scene = scene();
    let text = "extends = \"default\"\n[seccomp]\nfilters = [\"!nosuid\"]\n";
    scene.request.profile = Profile::parse("mine", text).unwrap();
    let plan = scene.plan();
    let names: Vec<_> = plan.seccomp_programs().iter().map(|program| program.name).collect();
    let is_root = scene.request.user.uid == 0;
    assert_eq!(names.contains(&"nosuid"), is_root);
    assert_eq!(plan.warnings().contains(&PlanWarning::Root), is_root);
}

#[test]
fn a_plan_can_be_made_before_anything_of_the_run_exists() {
    let mut scene = scene();
    let run = scene.request.dot_cursor.parent().unwrap().to_owned();
    std::fs::remove_dir_all(&run).unwrap();
    std::fs::remove_dir_all(&scene.request.chats.views[0].sessions[0]).unwrap();
    scene.request.run_directories = RunDirectories::MayBeMissing;
    let plan = scene.plan();
    assert!(!run.exists());
    let dest = format!("{}/.cursor read-only", scene.workspace().display());
    assert!(plan.explain().iter().any(|part| part.detail.starts_with(&dest)));
}

#[test]
fn links_in_the_repositorys_dot_cursor_are_left_out_with_a_warning() {
    let scene = scene();
    std::os::unix::fs::symlink("/etc", scene.in_workspace(".cursor/commands")).unwrap();
    std::os::unix::fs::symlink("rules", scene.in_workspace(".cursor/skills")).unwrap();
    let plan = scene.plan();
    let not_shown = |name: &str| PlanWarning::NotShown(scene.in_workspace(name));
    assert!(plan.warnings().contains(&not_shown(".cursor/commands")));
    assert!(plan.warnings().contains(&not_shown(".cursor/skills")));
    let shown: Vec<_> = plan.dot_cursor_mounts().directories().collect();
    assert_eq!(shown, [std::path::Path::new("rules")]);
}

/// Generates a valid file name.
fn any_name() -> impl Strategy<Value = OsString> {
    let bytes = proptest::collection::vec(
        prop_oneof![Just(b' '), Just(b'\n'), Just(b'\''), Just(b'-'), 1u8..],
        1..12,
    );
    bytes
        .prop_map(|bytes| bytes.into_iter().filter(|byte| *byte != b'/').collect::<Vec<u8>>())
        .prop_filter("a name", |bytes| !bytes.is_empty() && bytes != b"." && bytes != b"..")
        .prop_map(OsString::from_vec)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_path_and_value_reaches_bubblewrap_unchanged(tool in any_name(), file in any_name(), value in any_name()) {
        let mut scene = Scene::new("project");
        scene.program(&["/bin/true"]);
        let tool: PathBuf = std::fs::canonicalize(scene.host.path()).unwrap().join("tools").join(tool);
        std::fs::create_dir_all(&tool).unwrap();
        scene.request.expose.push(tool.clone());
        scene.request.private_home_files.push(sandbox_plan::PrivateFile {
            path: [OsStr::new("d"), &file].iter().collect(), contents: Vec::new(), mode: 0o600,
        });
        scene.request.env.push(run_variable("VALUE", value.clone()));
        let plan = scene.plan();
        let words = words(&plan);
        let bind = [OsString::from("--ro-bind"), tool.clone().into(), tool.into()];
        prop_assert!(words.windows(3).any(|three| three == bind));
        let dest = scene.home().join("d").join(&file);
        prop_assert!(words.windows(2).any(|two| two[0].as_bytes().starts_with(b"1") && two[1] == *dest.as_os_str()));
        let set = [OsString::from("--setenv"), "VALUE".into(), value];
        prop_assert!(words.windows(3).any(|three| three == set));
        prop_assert!(plan.explain().iter().all(|part| !part.detail.contains(char::is_control)));
    }

    #[test]
    fn a_workspace_with_any_name_is_planned_at_its_own_path(name in "[^/\0]{1,20}") {
        prop_assume!(name != "." && name != "..");
        let mut scene = Scene::new(&name);
        scene.program(&["/bin/true"]);
        let words = words(&plan(&scene.request).unwrap());
        let workspace = OsString::from(scene.workspace());
        let bind = [OsString::from("--bind"), workspace.clone(), workspace.clone()];
        let own = words.windows(3).position(|three| three == bind).unwrap();
        let dot_cursor = OsString::from(scene.in_workspace(".cursor"));
        let covered = words.iter().position(|word| *word == dot_cursor).unwrap();
        // Only this order protects the path.
        prop_assert!(own < covered);
        prop_assert_eq!(&words[words.len() - 4..], ["--json-status-fd", "300", "--block-fd", "301"]);
    }
}
