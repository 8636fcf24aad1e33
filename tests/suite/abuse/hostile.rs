//! A stage with everything that a hostile agent could want, and a neighbour process.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use abuse::{Answer, Evidence, Line, NEIGHBOUR, Neighbour, OTHER_SESSION, World};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::evidence::{Snapshot, set_id_or_device};
use crate::stage::programs::{copy_program, for_others, program};
use crate::stage::{Stage, assert_exit, stderr, wrapped_in};

/// A user id that no known machine uses.
pub(super) const ORDINARY_UID: u32 = 64_322;
const SECRET: &str = "s3cret-of-the-host";
const KEY: &str = "key_of-the-agent-itself";
const OTHER: &str = "0d1f0c2e-7d0a-4b57-9d0e-3f1a2b3c4d5e";
/// The size of each memory file system in the profile below.
const SPACE_BYTES: u64 = 4 << 20;
const PROFILE: &str = "\
extends = \"default\"
[kernel]
shm = \"4M\"
[temporary]
tmp = \"4M\"
run = \"1M\"
parents = \"4M\"
[home]
size = \"4M\"
";

/// The user that the agent runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Caller {
    User,
    /// Root, in root's own workspace: needs every protection against root.
    Root,
    /// Root, in a user's workspace: Caretaker becomes that user.
    RootForUser,
}

impl Caller {
    pub(super) const ALL: [Self; 3] = [Self::User, Self::Root, Self::RootForUser];
}

pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The stage. Its workspace is `work/project` in the home directory.
pub(super) struct Hostile {
    pub(super) stage: Stage,
    pub(super) caller: Caller,
    program: PathBuf,
    neighbour: Child,
    world: World,
    before: BTreeMap<&'static str, Snapshot>,
    host_name: Vec<u8>,
}

impl Hostile {
    /// Returns `None` if only root can play this caller and the test is not root.
    pub(super) fn new(caller: Caller) -> Option<Self> {
        if caller != Caller::User && !is_root() {
            return None;
        }
        let stage = Stage::new();
        let program = reachable(&program("caretaker"), &stage, caller);
        Some(Self::on(stage, caller, program))
    }

    /// Like [`Self::new`], but on a given stage, with the shim's program at a given path.
    pub(super) fn on(stage: Stage, caller: Caller, program: PathBuf) -> Self {
        let home = stage.home();
        furnish(&home);
        fs::create_dir_all(stage.root().join("state")).unwrap();
        give_away(&stage, caller);
        let probe = reachable(&probe(), &stage, caller);
        let (neighbour, said) = start_neighbour(&probe, &home, caller);
        let world = world_of(&stage, &program, said);
        let file = home.join("work/project/world.json");
        fs::write(file, serde_json::to_vec(&world).unwrap()).unwrap();
        give_away(&stage, caller);

        let mut hostile = Self {
            stage,
            caller,
            program,
            neighbour,
            world,
            before: BTreeMap::new(),
            host_name: fs::read("/proc/sys/kernel/hostname").unwrap(),
        };
        for attempt in abuse::attempts() {
            if let Evidence::Intact(paths) = attempt.evidence {
                for path in paths {
                    hostile.before.insert(path, Snapshot::of(&hostile.place(path)));
                }
            }
        }
        hostile
    }

    pub(super) fn world(&self) -> &World {
        &self.world
    }

    /// Gives everything on the stage, including files added later, to the user that the agent runs as.
    pub(super) fn give_away(&self) {
        give_away(&self.stage, self.caller);
    }

    /// Ends the neighbour.
    pub(super) fn dismiss_neighbour(&mut self) {
        // The neighbour exits when its stdin closes.
        drop(self.neighbour.stdin.take());
        self.neighbour.wait().unwrap();
    }

    pub(super) fn workspace(&self) -> PathBuf {
        self.stage.home().join("work/project")
    }

    fn place(&self, path: &str) -> PathBuf {
        self.stage.home().join(place_of(path, &self.world))
    }

    /// Returns a `caretaker` command as the caller would start it, with a secret in the environment.
    pub(super) fn command(&self, args: &[&str]) -> Command {
        let plain = self.stage.caretaker(args);
        // A run that root started for a user belongs to that user, and so do its records.
        let is_users = self.caller == Caller::RootForUser && args.first() != Some(&"run");
        let mut words = as_caller(if is_users { Caller::User } else { self.caller });
        words.push(self.program.to_str().unwrap().to_owned());
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .args(plain.get_args())
            .env_clear()
            .envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .env("OF_THE_HOST", SECRET)
            .env("CURSOR_API_KEY", KEY)
            .current_dir(self.workspace())
            .stdin(Stdio::null());
        command
    }

    /// Plays a script on its own terminal until the run ends.
    pub(super) fn play(&self, script: &str, flags: &[&str]) -> Output {
        let prompt = self.stage.root().join("prompt");
        fs::write(&prompt, format!("Play this:\n```agent\n{script}\n```\n")).unwrap();
        fs::set_permissions(&prompt, fs::Permissions::from_mode(0o644)).unwrap();
        let file = prompt.to_str().unwrap();
        let args = ["run", "--agent", "simulated", "--file", file];
        let profile = if flags.contains(&"--profile") { &[][..] } else { &["--profile", "abused"] };
        let flags = [flags, profile].concat();
        let terminal = Terminal::new();
        let typed = self.stage.root().join("typed");
        terminal.command(&self.command(&[&args, &flags[..]].concat()), &typed).output().unwrap()
    }

    /// Starts a script in the background, and returns the run id once its first tool is running.
    pub(super) fn detach(&self, script: &str, flags: &[&str]) -> String {
        let prompt = format!("```agent\n{script}\n```\n");
        let args = ["run", "--agent", "simulated", "--detach", &prompt];
        let output = self.command(&[&args, flags].concat()).output().unwrap();
        assert_exit(&output, 0);
        let run = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        let mut tail = self.command(&["tail", &run, "--follow", "--json"]);
        let mut tail = tail.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines();
        let is_started = lines.any(|line| line.unwrap().contains("agent.tool_started"));
        tail.kill().ok();
        tail.wait().unwrap();
        assert!(is_started, "the run ended before its tool ran");
        run
    }

    /// Copies the probe to a tools directory that the sandbox shows.
    pub(super) fn bring_probe(&self) -> PathBuf {
        let place = self.stage.home().join(".local/bin/sandbox-probe");
        copy_program(&probe(), &place);
        self.give_away();
        place
    }

    /// Runs the probe with these attempts, and returns its answers.
    pub(super) fn try_all(&self, ids: &[&str]) -> BTreeMap<String, Answer> {
        let probe = self.bring_probe();
        let script = format!(
            "shell[timeout=300s] {} try world.json {} > results 2> complaint; true\nsay done",
            probe.display(),
            ids.join(" ")
        );
        let output = self.play(&script, &[]);
        assert!(output.status.success(), "{:?}: {}", self.caller, stderr(&output));
        let complaint = fs::read_to_string(self.workspace().join("complaint")).unwrap();
        assert_eq!(complaint, "");
        answers(&fs::read(self.workspace().join("results")).unwrap())
    }

    /// Checks on the host that an attempt had no effect. The error says what the host shows.
    pub(super) fn look(&self, evidence: Evidence) -> Result<(), String> {
        let expect = |holds: bool, what: &str| if holds { Ok(()) } else { Err(what.to_owned()) };
        match evidence {
            Evidence::Inside => Ok(()),
            Evidence::Intact(paths) => {
                let differences = paths.iter().filter_map(|path| {
                    self.before[path].difference(&Snapshot::of(&self.place(path)))
                });
                differences.into_iter().next().map_or(Ok(()), Err)
            }
            Evidence::NeighbourLives => {
                let status = fs::read_to_string(format!("/proc/{}/status", self.neighbour.id()));
                let lives = status.is_ok_and(|status| !status.contains("State:\tZ"));
                expect(lives, "the neighbour is dead")
            }
            Evidence::NobodyCame => {
                let visits = fs::read_to_string(self.stage.home().join("visits")).unwrap();
                expect(visits.is_empty(), &format!("visited: {visits}"))
            }
            Evidence::NoSetId => match set_id_or_device(&self.workspace()) {
                Some(found) => Err(format!("`{}` is there", found.display())),
                None => Ok(()),
            },
            Evidence::NothingTyped => {
                let typed = fs::read(self.stage.root().join("typed")).unwrap();
                expect(typed.is_empty(), &format!("typed: {}", String::from_utf8_lossy(&typed)))
            }
            Evidence::NameOfHost => {
                let name = fs::read("/proc/sys/kernel/hostname").unwrap();
                expect(name == self.host_name, "the host name changed")
            }
        }
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.dismiss_neighbour();
    }
}

/// Resolves a path of [`Evidence::Intact`], which is relative to the home directory.
pub(super) fn place_of(path: &str, world: &World) -> PathBuf {
    match path {
        OTHER_SESSION => Path::new(".cursor/chats").join(&world.buckets[0]).join(OTHER),
        path => path.into(),
    }
}

/// Parses the probe's output lines, by attempt id.
pub(super) fn answers(printed: &[u8]) -> BTreeMap<String, Answer> {
    let lines = printed.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines
        .map(serde_json::from_slice::<Line>)
        .map(|line| line.map(|line| (line.id, line.answer)).unwrap())
        .collect()
}

/// A terminal for the test's programs.
pub(super) struct Terminal {
    _master: OwnedFd,
    slave: File,
}

impl Terminal {
    pub(super) fn new() -> Self {
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let slave = rustix::fs::open(name.as_c_str(), flags, Mode::empty()).unwrap();
        Self { _master: master, slave: slave.into() }
    }

    /// Returns the same command on this terminal. Everything typed into the terminal meanwhile goes to the file
    /// `typed`.
    pub(super) fn command(&self, command: &Command, typed: &Path) -> Command {
        let script = "typed=$1; shift; \"$@\" < /dev/null; code=$?; stty -icanon min 0 time 0; cat > \"$typed\"; exit $code";
        let mut wrapped = Command::new("setsid");
        wrapped.args(["--ctty", "--wait", "sh", "-c", script, "sh"]).arg(typed);
        let mut wrapped = wrapped_in(wrapped, command);
        wrapped.stdin(self.slave.try_clone().unwrap());
        wrapped
    }
}

/// Returns the words to put before a command so that it runs as the caller.
pub(super) fn as_caller(caller: Caller) -> Vec<String> {
    if caller != Caller::User || !is_root() {
        return vec!["env".to_owned()];
    }
    let ids = [format!("--reuid={ORDINARY_UID}"), format!("--regid={ORDINARY_UID}")];
    let [uid, gid] = ids;
    vec!["setpriv".to_owned(), uid, gid, "--clear-groups".to_owned()]
}

/// Returns a path to a built program that the caller can execute.
fn reachable(program: &Path, stage: &Stage, caller: Caller) -> PathBuf {
    match caller {
        Caller::User | Caller::RootForUser if is_root() => for_others(program, &stage.root()),
        _ => program.to_owned(),
    }
}

/// Gives everything on the stage to the user that the agent runs as.
fn give_away(stage: &Stage, caller: Caller) {
    if is_root() && caller != Caller::Root {
        crate::sandbox::strict::give_away(&stage.root(), ORDINARY_UID);
    }
}

fn probe() -> PathBuf {
    env!("CARGO_BIN_EXE_sandbox-probe").into()
}

fn chats(home: &Path) -> PathBuf {
    home.join(".cursor/chats")
}

fn buckets(home: &Path) -> Vec<String> {
    let workspace = cursor_home::WorkspacePath::new(&home.join("work/project")).unwrap();
    cursor_home::BucketHash::ALL.map(|hash| workspace.bucket_by(hash)).into()
}

/// Writes a file, and creates its directories.
pub(super) fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Writes everything an agent could want: secrets, other projects and sessions, and configuration that programs obey.
fn furnish(home: &Path) {
    let project = home.join("work/project");
    fs::create_dir_all(&project).unwrap();
    let initialised = Command::new("git").args(["init", "--quiet"]).current_dir(&project).output();
    assert!(initialised.unwrap().status.success());
    let server = format!(
        r#"{{"mcpServers":{{"notes":{{"command":"true","env":{{"NOTES_KEY":"{SECRET}"}}}}}}}}"#
    );
    let npmrc = format!("registry=https://ada:{SECRET}@registry.example.org/\n_auth={SECRET}\n");
    let of_home = [
        (".ssh/id_ed25519", SECRET),
        (".bashrc", SECRET),
        (".aws/credentials", SECRET),
        (".cursor/mcp.json", &server),
        (".npmrc", &npmrc),
        (".local/bin/tool", "#!/bin/sh\n"),
        (".local/bin/.npmrc", SECRET),
        (".local/bin/etc/npmrc", SECRET),
        (".cargo/credentials.toml", SECRET),
        (".cargo/registry/cache/credentials.toml", SECRET),
        (".cargo/registry/cache/reg/a-1.0.0.crate", "a package\n"),
        ("other/cache/poison", SECRET),
        ("work/project/Cargo.toml", "# a package\n"),
        ("other/notes.txt", SECRET),
        ("work/beside/notes.txt", SECRET),
        (".config/caretaker/profiles/abused.toml", PROFILE),
    ];
    for (path, content) in of_home {
        write(&home.join(path), content);
    }
    let of_project = [
        ".git/hooks/pre-push",
        ".git/config.worktree",
        ".git/info/attributes",
        ".cursor/mcp.json",
        ".cursor/rules/style.mdc",
        ".vscode/tasks.json",
        ".idea/workspace.xml",
        "all.code-workspace",
        ".claude/settings.json",
        ".mcp.json",
        ".cursorignore",
        ".gitmodules",
        ".envrc",
    ];
    for path in of_project {
        write(&project.join(path), "# the repository's own\n");
    }
    furnish_git(&project);
    symlink("../../other", project.join("shipped-link")).unwrap();
    for bucket in buckets(home).into_iter().chain(["another-bucket".to_owned()]) {
        write(&chats(home).join(bucket).join(OTHER).join("store.db"), SECRET);
    }
}

/// Adds the places that git obeys besides the repository itself: a submodule, another worktree, a nested repository,
/// and files that git's configuration names.
fn furnish_git(project: &Path) {
    let own = fs::read_to_string(project.join(".git/config")).unwrap();
    let named = "[core]\n\thooksPath = githooks\n\
                 [include]\n\tpath = ../team.gitconfig\n\tpath = ../missing.gitconfig\n";
    let config = format!("{own}{named}");
    let files = [
        (".git/config", config.as_str()),
        (".git/modules/lib/HEAD", "ref: refs/heads/main\n"),
        (".git/modules/lib/config", "[core]\n\tworktree = ../../../lib\n"),
        (".git/modules/lib/hooks/pre-push", "# the submodule's own\n"),
        (".git/worktrees/other/HEAD", "ref: refs/heads/other\n"),
        (".git/worktrees/other/commondir", "../..\n"),
        (".git/worktrees/other/gitdir", "/nowhere/other/.git\n"),
        ("lib/.git", "gitdir: ../.git/modules/lib\n"),
        ("vendor/inner/.git/HEAD", "ref: refs/heads/main\n"),
        ("vendor/inner/.git/config", "[core]\n\tbare = false\n"),
        ("vendor/inner/.git/hooks/pre-push", "# its own\n"),
        ("githooks/pre-push", "# the repository's own\n"),
        ("team.gitconfig", "# the team's own\n"),
    ];
    for (path, content) in files {
        write(&project.join(path), content);
    }
    for git_dir in [".git/modules/lib", "vendor/inner/.git"] {
        for name in ["objects", "refs"] {
            fs::create_dir(project.join(git_dir).join(name)).unwrap();
        }
    }
}

/// Starts the neighbour, as the user that the agent runs as.
fn start_neighbour(probe: &Path, home: &Path, caller: Caller) -> (Child, Neighbour) {
    let of_user = if caller == Caller::RootForUser { Caller::User } else { caller };
    let words = as_caller(of_user);
    let mut child = Command::new(&words[0])
        .args(&words[1..])
        .arg(probe)
        .args([NEIGHBOUR, home.to_str().unwrap()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (child, serde_json::from_str(&line).expect("the neighbour describes itself"))
}

/// In containers, kernel settings are often read-only, so that no process can write them.
fn has_writable_settings() -> bool {
    let settings = rustix::fs::statvfs("/proc/sys/user").unwrap();
    !settings.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY)
}

fn world_of(stage: &Stage, program: &Path, neighbour: Neighbour) -> World {
    let home = stage.home();
    let host_name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    World {
        workspace: home.join("work/project"),
        state: stage.root().join("state"),
        sockets: stage.root().join("run"),
        program: program.to_owned(),
        secret: SECRET.to_owned(),
        key: KEY.to_owned(),
        buckets: buckets(&home),
        other_session: OTHER.to_owned(),
        host_name: host_name.trim().to_owned(),
        machine_network: abuse::network_namespace().unwrap(),
        has_writable_settings: has_writable_settings(),
        space_bytes: SPACE_BYTES,
        neighbour,
        home,
    }
}
