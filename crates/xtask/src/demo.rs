//! `cargo xtask demo`: a sandboxed run from nothing, suspended in the middle of a tool and resumed, with the simulated
//! agent.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use crate::commands;
use crate::system_packages::{self, BUBBLEWRAP, C_COMPILER};

pub(crate) fn run() -> anyhow::Result<()> {
    system_packages::ensure(&[C_COMPILER, BUBBLEWRAP])?;
    commands::run(&commands::cargo(), &["build", "--locked", "-p", "caretaker"])?;
    let caretaker = commands::target_dir().join("debug").join("caretaker");

    let scratch = tempfile::tempdir().context("no scratch directory could be made")?;
    let stage = Stage { caretaker: &caretaker, scratch: scratch.path() };
    std::fs::create_dir_all(stage.workspace())?;
    std::fs::write(stage.workspace().join("README.md"), "# A project\n\nNothing here yet.\n")?;

    stage.say("A sandboxed run: the agent sees this workspace and little else. Watch it work.")?;
    stage.caretaker(&[
        "run",
        "--agent",
        "simulated",
        "--name",
        "demo",
        "Look around and leave a note.",
    ])?;
    stage.say("What came of it, and what Cursor's store holds of the conversation:")?;
    stage.caretaker(&["show", "demo"])?;
    stage.say("The agent's edits are in the workspace, and nothing else is:")?;
    stage.shell("ls -la && cat caretaker-demo.md")?;
    stage.say("Every event was journalled; any of them can be read again:")?;
    stage.caretaker(&["tail", "demo", "-n", "3", "--json"])?;
    stage.suspend_and_resume()?;
    stage.say("Done. The scratch directory goes away with this demo.")
}

/// Where the demo happens: a home, a workspace and a state directory of its own.
struct Stage<'a> {
    caretaker: &'a Path,
    scratch: &'a Path,
}

impl Stage<'_> {
    fn workspace(&self) -> std::path::PathBuf {
        self.scratch.join("home").join("project")
    }

    fn suspend_and_resume(&self) -> anyhow::Result<()> {
        self.say("A run in the background, in the middle of a command that takes its time:")?;
        let prompt = "Run the slow tests. The password is heron.\n\
                      ```agent\nsay I run them.\nshell sleep 600\n```";
        self.caretaker(&["run", "--agent", "simulated", "--name", "slow", "--detach", prompt])?;
        self.wait_for_a_tool("slow")?;
        self.say("It is suspended; what Cursor's store holds of it is known:")?;
        self.caretaker(&["suspend", "slow"])?;
        let session = self.session_of("slow")?;
        self.say("And resumed by the session's UUID. The agent is asked what it remembers:")?;
        let question = "What did I say?\n```agent\nrecall\n```";
        self.caretaker(&["resume", &session, "--agent", "simulated", question])?;
        self.say("The whole conversation, as Cursor's store has it:")?;
        self.caretaker(&["sessions", "show", &session])
    }

    /// Waits until the agent of a run is within a tool.
    fn wait_for_a_tool(&self, run: &str) -> anyhow::Result<()> {
        let mut command = Command::new(self.caretaker);
        command.args(["tail", run, "--follow", "--json"]).stdout(Stdio::piped());
        let mut tail = self.prepared(command).spawn()?;
        let lines = tail.stdout.take().map(|out| BufReader::new(out).lines());
        let is_in_a_tool = lines
            .into_iter()
            .flatten()
            .map_while(Result::ok)
            .any(|line| line.contains("\"agent.tool_started\""));
        tail.kill().ok();
        tail.wait()?;
        ensure!(is_in_a_tool, "the run ended before its tool");
        Ok(())
    }

    fn session_of(&self, run: &str) -> anyhow::Result<String> {
        let mut command = Command::new(self.caretaker);
        command.args(["show", run, "--json"]);
        let shown: serde_json::Value =
            serde_json::from_slice(&self.prepared(command).output()?.stdout)?;
        Ok(shown["session"].as_str().context("the run has no session")?.to_owned())
    }

    #[expect(clippy::print_stdout, reason = "a demo shows what it does")]
    fn say(&self, text: &str) -> anyhow::Result<()> {
        println!("\n\x1b[1m── {text}\x1b[0m");
        Ok(())
    }

    fn caretaker(&self, args: &[&str]) -> anyhow::Result<()> {
        self.show(&format!("caretaker {}", args.join(" ")));
        let mut command = Command::new(self.caretaker);
        command.args(args);
        self.perform(command)
    }

    fn shell(&self, script: &str) -> anyhow::Result<()> {
        self.show(script);
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        self.perform(command)
    }

    #[expect(clippy::print_stdout, reason = "a demo shows what it does")]
    fn show(&self, command: &str) {
        println!("\x1b[36m$ {command}\x1b[0m");
    }

    fn perform(&self, command: Command) -> anyhow::Result<()> {
        let status = self.prepared(command).status()?;
        ensure!(status.success(), "the command ended with {status}");
        Ok(())
    }

    fn prepared(&self, mut command: Command) -> Command {
        command
            .current_dir(self.workspace())
            .env("HOME", self.scratch.join("home"))
            .env("CARETAKER_HOME", self.scratch.join("state"))
            .env_remove("XDG_STATE_HOME")
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("CURSOR_CONFIG_DIR");
        command
    }
}
