//! Records what the shim really passed to bubblewrap for a run, and the state of the host at that moment.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use abuse::World;
use tempfile::TempDir;

use super::super::hostile::{Caller, Hostile, ORDINARY_UID, is_root};
use crate::stage::namespace::Namespace;
use crate::stage::programs::{for_others, program as built_program};
use crate::stage::{Stage, assert_exit};

/// The number of arguments after each option.
const WORDS: &[(&str, usize)] = &[
    ("--unshare-user", 0),
    ("--unshare-pid", 0),
    ("--unshare-ipc", 0),
    ("--unshare-uts", 0),
    ("--unshare-net", 0),
    ("--unshare-cgroup-try", 0),
    ("--disable-userns", 0),
    ("--new-session", 0),
    ("--die-with-parent", 0),
    ("--clearenv", 0),
    ("--hostname", 1),
    ("--cap-drop", 1),
    ("--size", 1),
    ("--perms", 1),
    ("--tmpfs", 1),
    ("--proc", 1),
    ("--dev", 1),
    ("--remount-ro", 1),
    ("--chdir", 1),
    ("--add-seccomp-fd", 1),
    ("--json-status-fd", 1),
    ("--setenv", 2),
    ("--bind", 2),
    ("--ro-bind", 2),
    ("--symlink", 2),
    ("--file", 2),
];

/// One option with its arguments.
pub(super) type Operation = Vec<String>;

/// The recording of a real run.
pub(super) struct Recording {
    pub(super) operations: Vec<Operation>,
    /// The contents of the other descriptors, by number.
    pub(super) descriptors: BTreeMap<i32, Vec<u8>>,
    pub(super) args_fd: i32,
    /// The shim's program.
    pub(super) program: PathBuf,
    pub(super) world: World,
    /// The stage's original path. Each replay mounts its copy there.
    pub(super) stage_root: PathBuf,
    /// A copy of the stage. It belongs to the user that the replays run as.
    pub(super) snapshot: PathBuf,
    /// Contains the snapshot, the program and the results.
    pub(super) directory: TempDir,
    /// Keeps the stage's directory until the recording is dropped.
    pub(super) hostile: Hostile,
}

impl Recording {
    /// Records an ordinary run. Returns `None` if the shim would not trust our bubblewrap.
    pub(super) fn new() -> Option<Self> {
        Self::of(&[], |_| {})
    }

    /// Starts a run with these flags, on a stage with more on it. Its bubblewrap records its input, and then the run
    /// ends.
    pub(super) fn of(flags: &[&str], prepare: fn(&Hostile)) -> Option<Self> {
        let namespace = Namespace::with_mounts()?;
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        let taken = directory.path().join("taken");
        fs::create_dir(&taken).unwrap();
        let program = for_others(&built_program("caretaker"), directory.path());

        let caller = if is_root() { Caller::Root } else { Caller::User };
        let hostile = Hostile::on(Stage::new(), caller, program.clone());
        hostile.bring_probe();
        prepare(&hostile);
        let run = record(&hostile, namespace, &taken, flags);
        let snapshot = directory.path().join("snapshot");
        copy(&hostile.stage.root(), &snapshot);
        fs::write(snapshot.join("home/world"), without_neighbour(hostile.world())).unwrap();
        if is_root() {
            crate::sandbox::strict::give_away(&snapshot, ORDINARY_UID);
        }
        hostile.stage.output(&["kill", "--now", &run]);

        let (args_fd, args, descriptors) = read_taken(&taken);
        Some(Self {
            operations: operations(&args),
            descriptors,
            args_fd,
            program,
            world: hostile.world().clone(),
            stage_root: hostile.stage.root(),
            snapshot,
            directory,
            hostile,
        })
    }
}

/// Starts a run that waits, and returns once its bubblewrap has recorded everything.
fn record(hostile: &Hostile, namespace: Namespace, taken: &Path, flags: &[&str]) -> String {
    // Opening a descriptor again through /proc keeps the offset of the one that bubblewrap reads.
    let bwrap = format!(
        "#!/bin/sh\n\
         case \" $* \" in *' --args '*)\n\
           for fd in /proc/$$/fd/*; do\n\
             case $(readlink \"$fd\") in /memfd:*) cat \"$fd\" > '{0}'/\"${{fd##*/}}\" ;; esac\n\
           done\n\
           echo \"$2\" > '{0}/args' ;;\n\
         esac\n\
         exec /usr/bin/bwrap \"$@\"\n",
        taken.display()
    );
    let prompt = "```agent\nshell sleep 600\n```\n";
    let args = ["run", "--agent", "simulated", "--profile", "abused", "--detach", prompt];
    let mut command = hostile.command(&[&args, flags].concat());
    namespace.trust_bubblewrap(&hostile.stage, bwrap.as_bytes(), &mut command);
    let output = namespace.command(&[], &command).output().unwrap();
    assert_exit(&output, 0);
    let run = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    hostile.stage.wait_until(&run, |line| line["kind"] == "agent.tool_started");
    run
}

/// Describes the world without its neighbour, because each replay has its own.
fn without_neighbour(world: &World) -> String {
    let mut told = serde_json::to_value(world).unwrap();
    told.as_object_mut().unwrap().remove("neighbour");
    format!("{},\"neighbour\":", told.to_string().trim_end_matches('}'))
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).output().unwrap();
    assert_exit(&copied, 0);
}

fn read_taken(taken: &Path) -> (i32, Vec<u8>, BTreeMap<i32, Vec<u8>>) {
    let number = |text: &str| text.trim().parse::<i32>().unwrap();
    let args_fd = number(&fs::read_to_string(taken.join("args")).unwrap());
    let mut descriptors: BTreeMap<i32, Vec<u8>> = fs::read_dir(taken)
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_name() != "args")
        .map(|entry| (number(entry.file_name().to_str().unwrap()), fs::read(entry.path()).unwrap()))
        .collect();
    let args = descriptors.remove(&args_fd).expect("the recording has the options");
    (args_fd, args, descriptors)
}

fn operations(args: &[u8]) -> Vec<Operation> {
    let text = String::from_utf8(args.to_vec()).unwrap();
    let mut words = text.split_terminator('\0').map(str::to_owned);
    let mut operations = Vec::new();
    while let Some(option) = words.next() {
        let known = WORDS.iter().find(|(name, _)| *name == option);
        let (_, count) =
            known.unwrap_or_else(|| panic!("unknown option `{option}`; add it to WORDS"));
        let more: Vec<String> = words.by_ref().take(*count).collect();
        operations.push([vec![option], more].concat());
    }
    operations
}
