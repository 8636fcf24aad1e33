//! Real projects with dependencies, offline in the real sandbox, from caches that the host's tools filled beforehand.
//!
//! An ordinary user has the project. If root runs the suite, the everyday projects are tested as root too.

mod everyday;
mod long;
mod registry;

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::sandbox::strict::{ORDINARY_USER, as_user, give_away};
use crate::stage::programs::{for_others, is_for_others, program};
use crate::stage::{Stage, assert_exit, printed, stderr, with_context_of};

/// The user who has a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum User {
    /// The user who runs the suite.
    Same,
    /// An ordinary user whom root becomes.
    Ordinary,
}

impl User {
    /// An ordinary user: the one who runs the suite, unless that is root.
    fn ordinary() -> Self {
        if rustix::process::getuid().is_root() { Self::Ordinary } else { Self::Same }
    }

    /// An ordinary user, and root if root runs the suite.
    fn all() -> Vec<Self> {
        let mut all = vec![Self::ordinary(), Self::Same];
        all.dedup();
        all
    }
}

/// A project in the workspace of a stage, and its user.
struct Project {
    stage: Stage,
    user: User,
    caretaker: PathBuf,
    toolchain: PathBuf,
    /// Programs that every user can execute.
    _programs: TempDir,
}

impl Project {
    fn of(user: User) -> Self {
        let stage = Stage::new();
        let programs = tempfile::tempdir().unwrap();
        fs::set_permissions(programs.path(), Permissions::from_mode(0o755)).unwrap();
        let caretaker = for_others(&program("caretaker"), programs.path());
        let toolchain = toolchain_for_others(programs.path());
        Self { stage, user, caretaker, toolchain, _programs: programs }
    }

    fn home(&self) -> PathBuf {
        self.stage.home()
    }

    fn workspace(&self) -> PathBuf {
        self.stage.workspace()
    }

    fn path_variable(&self) -> String {
        format!("{}:/usr/local/bin:/usr/bin:/bin", self.toolchain.join("bin").display())
    }

    /// Returns the same command as the project's user. All files on the stage are that user's from now on.
    fn as_its_user(&self, command: Command) -> Command {
        match self.user {
            User::Same => command,
            User::Ordinary => {
                give_away(&self.stage.root(), ORDINARY_USER);
                as_user(ORDINARY_USER, &command)
            }
        }
    }

    fn caretaker(&self, args: &[&str]) -> Command {
        let mut command =
            with_context_of(Command::new(&self.caretaker), &self.stage.caretaker(args));
        command.env("PATH", self.path_variable());
        self.as_its_user(command)
    }

    /// Runs one of the user's own tools in the workspace, outside any sandbox. It must succeed.
    #[track_caller]
    fn on_host(&self, program: &str, args: &[&str]) {
        let mut command = Command::new(program);
        command.args(args).env_clear().current_dir(self.workspace());
        command.env("HOME", self.home()).env("PATH", self.path_variable());
        let output = self.as_its_user(command).output().unwrap();
        assert!(output.status.success(), "{} {}", stderr(&output), printed_anyway(&output));
    }

    /// Runs a command in the workspace inside a sandbox. Returns its output and its exit code.
    fn inside(&self, command: &str) -> (String, String) {
        let script = format!(
            "shell[timeout=300s] ( {command} ) > ../.said 2>&1; echo $? > ended; cp ../.said said"
        );
        let prompt = format!("Play this:\n```agent\n{script}\n```\n");
        let toolchain = self.toolchain.to_str().unwrap();
        let args = ["run", &prompt, "--agent", "simulated", "--expose", toolchain];
        let mut run = self.caretaker(&args);
        assert_exit(&run.output().unwrap(), 0);
        let uid = match self.user {
            User::Same => rustix::process::getuid().as_raw(),
            User::Ordinary => ORDINARY_USER,
        };
        let take = |name: &str| {
            let path = self.workspace().join(name);
            assert_eq!(fs::metadata(&path).unwrap().uid(), uid);
            let text = fs::read_to_string(&path).unwrap();
            fs::remove_file(path).unwrap();
            text
        };
        (take("said"), take("ended").trim().to_owned())
    }

    /// Runs a command inside twice: with an empty private cache, and with the one that the first run filled. Both must
    /// succeed and print a text, and the host's caches and home must stay as they were.
    #[track_caller]
    fn passes_cold_and_again(&self, command: &str, prints: &str) {
        let before = self.fingerprint();
        for round in ["cold", "again"] {
            let (said, code) = self.inside(command);
            assert_eq!(code, "0", "{:?}, {round}: {said}", self.user);
            assert!(said.contains(prints), "{:?}, {round}: {said}", self.user);
        }
        assert_eq!(self.fingerprint(), before, "{:?}", self.user);
    }

    /// The caches that the last run had.
    fn caches(&self) -> serde_json::Value {
        let run = self.stage.run_ids().pop().unwrap();
        let shown = self.caretaker(&["show", &run, "--json"]).output().unwrap();
        let mut shown: serde_json::Value = serde_json::from_str(&printed(&shown)).unwrap();
        shown["caches"].take()
    }

    /// Names, kinds, sizes, times, inode numbers, modes and link targets in the home, and the contents of its files,
    /// without the workspace and Cursor's own directory.
    fn fingerprint(&self) -> String {
        let script = "find . -mindepth 1 \\( -path ./project -o -path ./.cursor \\) -prune -o -printf '%p %y %s %T@ %i %m %l\\n' | sort
            find . \\( -path ./project -o -path ./.cursor \\) -prune -o -type f -print0 | sort -z | xargs -0r sha256sum";
        printed(&Command::new("sh").args(["-c", script]).current_dir(self.home()).output().unwrap())
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        // Go's packages are in directories that only root could remove.
        Command::new("chmod").args(["-R", "u+w"]).arg(self.stage.root()).output().ok();
    }
}

fn printed_anyway(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Returns a path to the toolchain that built this suite where every user can execute it. If other users cannot enter its
/// directory, the path has second names for its files, or copies on another file system.
fn toolchain_for_others(directory: &Path) -> PathBuf {
    let toolchain = Path::new(env!("CARGO")).parent().and_then(Path::parent).unwrap();
    if is_for_others(toolchain) {
        return toolchain.to_owned();
    }
    let other = directory.join("toolchain");
    fs::create_dir(&other).unwrap();
    let copy = |how| {
        let mut copy = Command::new("cp");
        copy.arg(how).args(["bin", "lib"].map(|part| toolchain.join(part))).arg(&other);
        copy.output().unwrap()
    };
    if !copy("-al").status.success() {
        assert_exit(&copy("-a"), 0);
    }
    other
}
