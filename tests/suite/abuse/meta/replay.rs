//! Replays the recorded run without one protection, in temporary namespaces.
//!
//! An outer sandbox surrounds the sandbox: an ordinary user of the machine is root in a user namespace, with its own
//! mounts, processes, network and names. There the stage's directory is a copy in memory. An agent that gets out of the
//! inner sandbox is in the outer one, and has no privileges on the machine even if it gets further.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Seek, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use abuse::{Answer, LEAKED_DESCRIPTOR};
use command_fds::{CommandFdExt, FdMapping};
use rustix::fs::{MemfdFlags, memfd_create};

use super::super::hostile::{ORDINARY_UID, Terminal, answers, is_root};
use super::protections::Off;
use super::recording::{Operation, Recording};

/// Tells the gate to release the run, with its limits.
const WORD: &[u8] = b"\x11nofile=4096 \n";
const WORD_FD: i32 = 250;
/// Not the number of any system call.
const NO_CALL: u32 = 0x3fff_ffff;
/// The filters, in the order of the profile.
const FILTERS: [&str; 4] = ["base", "hidden-arguments", "socket-families", "nosuid"];

/// Prepares the outer namespace and runs the sandbox in it. $1 is the snapshot, $2 its mount point, $3 the directory
/// for the results.
const OUTER: &str = r#"
set -e
PATH=$PATH:/usr/sbin:/sbin
snapshot=$1 stage=$2 out=$3
shift 3
ip link set lo up
mount -t tmpfs -o mode=755 none "$stage"
cp -a "$snapshot/." "$stage/"
# A part of /usr that can be written, were /usr writable.
mount -t tmpfs none /usr/src
home=$stage/home
mkfifo "$stage/holds" "$stage/says"
rm -f "$home/agent.sock"
"$home/.local/bin/sandbox-probe" neighbour "$home" <> "$stage/holds" > "$stage/says" &
read -r neighbour < "$stage/says"
printf '%s%s}' "$(cat "$home/world")" "$neighbour" > "$home/work/project/world.json"
eval "$BEFORE"
set +e
if [ "$PATIENCE" ]; then
    # Its parent is killed. The reader of its output sees whether it ends too.
    mkfifo "$stage/here"
    sh -c '"$@" < /proc/self/fd/250 > "$0"; true' "$stage/here" "$@" 2> "$out/complaint" &
    starter=$!
    { head -c 6 > "$out/answers"; kill -9 $starter; timeout "$PATIENCE" cat; echo $? > "$out/ended"; } < "$stage/here"
else
    "$@" < /proc/self/fd/250 > "$out/answers" 2> "$out/complaint"
fi
rm "$home/.local/bin/sandbox-probe"
cp -a "$home" "$out/home"
"#;

/// The result of a replay.
pub(super) struct Replayed {
    pub(super) answers: BTreeMap<String, Answer>,
    pub(super) complaint: String,
    /// The outer host's home directory after the replay.
    pub(super) home: PathBuf,
}

impl Recording {
    /// Makes attempts without these protections. `name` is the directory for the results.
    pub(super) fn replay(&self, name: &str, off: &[Off], ids: &[&str]) -> Replayed {
        let probe = self.world.home.join(".local/bin/sandbox-probe");
        let words = [&[probe.to_str().unwrap(), "try", "world.json"], ids].concat();
        let (out, said) = self.run(name, off, &words, "");
        let printed = fs::read(out.join("answers")).unwrap_or_default();
        // The gate writes one byte before the probe's output.
        let printed = printed.strip_prefix(b"\x06").unwrap_or(&printed);
        let complaint = fs::read_to_string(out.join("complaint")).unwrap_or_default();
        let complaint = format!("{complaint}{said}");
        Replayed { answers: answers(printed), complaint, home: out.join("home") }
    }

    /// Returns true if an agent survives its parent by this many seconds.
    pub(super) fn outlives_its_starter(&self, name: &str, off: &[Off], patience: &str) -> bool {
        let words = ["/bin/sh", "-c", "echo here; exec sleep 600"];
        let (out, said) = self.run(name, off, &words, patience);
        let printed = fs::read(out.join("answers")).unwrap_or_default();
        assert_eq!(printed, b"\x06here\n", "{said}");
        // `timeout` exits with this code if it had to end the command.
        fs::read_to_string(out.join("ended")).unwrap().trim() == "124"
    }

    /// Runs a command in the sandbox without these protections. Returns the results directory and the output.
    fn run(&self, name: &str, off: &[Off], words: &[&str], patience: &str) -> (PathBuf, String) {
        let out = self.directory.path().join(name);
        fs::create_dir(&out).unwrap();
        if is_root() {
            crate::sandbox::strict::give_away(&out, ORDINARY_UID);
        }
        let mut command = Command::new("unshare");
        if is_root() {
            command = Command::new("setpriv");
            command.args([format!("--reuid={ORDINARY_UID}"), format!("--regid={ORDINARY_UID}")]);
            command.args(["--clear-groups", "unshare"]);
        }
        let before = off.iter().find_map(|off| match off {
            Off::Refusal(shell) => Some(*shell),
            _ => None,
        });
        command
            .args("--user --map-root-user --mount --pid --net --ipc --uts".split(' '))
            .args(["--fork", "--kill-child", "--mount-proc", "sh", "-c", OUTER, "sh"])
            .args([&self.snapshot, &self.stage_root, &out])
            .args(self.sandbox_command(off, words))
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .envs([("BEFORE", before.unwrap_or_default()), ("PATIENCE", patience)])
            .current_dir(&out);
        // The shim starts bubblewrap with an empty environment.
        if off.contains(&Off::EmptyEnvironment) {
            command.env("OF_THE_HOST", &self.world.secret);
        }
        let terminal = Terminal::new();
        let mut command = terminal.command(&command, Path::new("/dev/null"));
        command.fd_mappings(self.descriptors_without(off).0).unwrap();
        let output = command.output().unwrap();
        (out, String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Bubblewrap's input, the byte for the gate, and a descriptor left open on purpose.
    fn descriptors_without(&self, off: &[Off]) -> Mappings {
        let (operations, programs) = self.without(off);
        let mut mappings = Mappings::default();
        let args: Vec<u8> = operations
            .iter()
            .flatten()
            .flat_map(|word| [word.as_bytes(), b"\0"].concat())
            .collect();
        mappings.add(self.args_fd, &args);
        for (number, content) in &self.descriptors {
            mappings.add(*number, programs.get(number).unwrap_or(content));
        }
        mappings.add(self.status_fd(), b"");
        mappings.add(WORD_FD, WORD);
        let leaked = File::open(self.directory.path()).unwrap();
        mappings.0.push(FdMapping { parent_fd: leaked.into(), child_fd: LEAKED_DESCRIPTOR });
        mappings
    }

    /// The command line: bubblewrap, then the gate, then the command.
    fn sandbox_command(&self, off: &[Off], words: &[&str]) -> Vec<String> {
        let args_fd = self.args_fd.to_string();
        let environment =
            if off.contains(&Off::EmptyEnvironment) { &["env"][..] } else { &["env", "-i"] };
        let bwrap = ["/usr/bin/bwrap", "--args", &args_fd, "--"];
        let gate = [self.program.to_str().unwrap(), "gate"];
        let gate = if off.contains(&Off::Gate) { &[][..] } else { &gate };
        [environment, &bwrap, gate, words].concat().into_iter().map(str::to_owned).collect()
    }

    fn status_fd(&self) -> i32 {
        let status = self.operations.iter().find(|words| words[0] == "--json-status-fd");
        status.unwrap()[1].parse().unwrap()
    }

    /// Returns the options and filters without these protections. Panics if a protection is not in the recording.
    fn without(&self, off: &[Off]) -> (Vec<Operation>, BTreeMap<i32, Vec<u8>>) {
        let mut operations = self.operations.clone();
        let mut programs = BTreeMap::new();
        for off in off {
            let before = (operations.clone(), programs.clone());
            self.take_away(off, &mut operations, &mut programs);
            let has_changed = (&operations, &programs) != (&before.0, &before.1);
            let is_of_launch = matches!(off, Off::EmptyEnvironment | Off::Gate | Off::Refusal(_));
            assert!(has_changed || is_of_launch, "{off:?} is not in the plan");
        }
        (operations, programs)
    }

    fn take_away(
        &self,
        off: &Off,
        operations: &mut Vec<Operation>,
        programs: &mut BTreeMap<i32, Vec<u8>>,
    ) {
        let at = |words: &Operation, place: &str| {
            let mounts = ["--bind", "--ro-bind", "--tmpfs", "--proc", "--dev", "--file"];
            mounts.contains(&words[0].as_str()) && words.last() == Some(&self.place(place))
        };
        match off {
            Off::Option(option) => operations.retain(|words| words[0] != *option),
            Off::ReadOnly(place) => {
                let mount = operations.iter_mut().find(|words| at(words, place));
                mount.unwrap_or_else(|| panic!("no mount at {place}"))[0] = "--bind".to_owned();
            }
            Off::Mount(place) => {
                let mount = operations.iter().position(|words| at(words, place)).unwrap();
                operations.remove(mount);
                remove_modifiers(operations, mount);
            }
            Off::Remount(place) => {
                operations.retain(|words| *words != ["--remount-ro", place]);
            }
            Off::Size(place) => {
                let mount = operations.iter().position(|words| at(words, place)).unwrap();
                // A mount's size and mode come before it.
                let size = (0..mount).rev().find(|index| operations[*index][0] == "--size");
                operations.remove(size.unwrap());
            }
            Off::Private(place, shown) => {
                let mount = operations.iter().rposition(|words| at(words, place)).unwrap();
                operations[mount] = vec!["--bind".to_owned(), self.place(shown), self.place(place)];
                remove_modifiers(operations, mount);
            }
            Off::Filter(name) => {
                let filters = operations.iter().enumerate();
                let mut filters = filters.filter(|(_, words)| words[0] == "--add-seccomp-fd");
                let index = FILTERS.iter().position(|filter| filter == name).unwrap();
                let (index, _) = filters.nth(index).unwrap();
                operations.remove(index);
            }
            Off::Call(number) => {
                for words in operations.iter().filter(|words| words[0] == "--add-seccomp-fd") {
                    let fd: i32 = words[1].parse().unwrap();
                    let program = programs.get(&fd).unwrap_or(&self.descriptors[&fd]);
                    let mutated = without_call(program, u32::try_from(*number).unwrap());
                    programs.insert(fd, mutated);
                }
            }
            Off::EmptyEnvironment | Off::Gate | Off::Refusal(_) => {}
        }
    }

    /// Resolves a path from the plan: `~` is the home directory, `.` the workspace.
    fn place(&self, place: &str) -> String {
        let world = &self.world;
        let path = match place {
            "the sessions" => world.home.join(".cursor/chats").join(&world.buckets[0]),
            _ => match (place.strip_prefix("~"), place.strip_prefix("./")) {
                (Some(rest), _) => return format!("{}{rest}", world.home.display()),
                (_, Some(rest)) => world.workspace.join(rest),
                _ => place.into(),
            },
        };
        path.to_str().unwrap().to_owned()
    }
}

/// Removes the options that belong to the removed mount.
fn remove_modifiers(operations: &mut Vec<Operation>, mut mount: usize) {
    while mount > 0 && ["--size", "--perms"].contains(&operations[mount - 1][0].as_str()) {
        mount -= 1;
        operations.remove(mount);
    }
}

/// Returns a filter where no comparison matches this number.
fn without_call(program: &[u8], number: u32) -> Vec<u8> {
    const JUMP_IF_EQUAL: u16 = 0x15;
    let instructions = program.chunks_exact(8).map(|instruction| {
        let mut instruction: [u8; 8] = instruction.try_into().unwrap();
        let code = u16::from_ne_bytes([instruction[0], instruction[1]]);
        if code == JUMP_IF_EQUAL && instruction[4..] == number.to_ne_bytes() {
            instruction[4..].copy_from_slice(&NO_CALL.to_ne_bytes());
        }
        instruction
    });
    instructions.flatten().collect()
}

#[derive(Default)]
struct Mappings(Vec<FdMapping>);

impl Mappings {
    fn add(&mut self, child_fd: i32, content: &[u8]) {
        let fd: OwnedFd = memfd_create("replay", MemfdFlags::CLOEXEC).unwrap();
        let mut file = File::from(fd);
        file.write_all(content).unwrap();
        file.rewind().unwrap();
        self.0.push(FdMapping { parent_fd: file.into(), child_fd });
    }
}
