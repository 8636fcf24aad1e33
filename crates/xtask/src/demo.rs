//! `cargo xtask demo`: sandboxed runs with the simulated agent. One is suspended in the middle of a tool and resumed.

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

    let scratch = tempfile::tempdir().context("cannot make a scratch directory")?;
    let stage = Stage { caretaker: &caretaker, scratch: scratch.path() };
    std::fs::create_dir_all(stage.workspace())?;
    std::fs::write(stage.workspace().join("README.md"), "# A project\n\nNothing here yet.\n")?;

    say("A sandboxed run: the agent sees this workspace and little else. Watch it work.");
    stage.caretaker(&[
        "run",
        "--agent",
        "simulated",
        "--name",
        "demo",
        "Look around and leave a note.",
    ])?;
    say("The outcome, and the state of the session in Cursor's store:");
    stage.caretaker(&["show", "demo"])?;
    say("The agent's edits are in the workspace, and nothing else is:");
    stage.shell("ls -la && cat caretaker-demo.md")?;
    say("The journal has every event:");
    stage.caretaker(&["tail", "demo", "-n", "3", "--json"])?;
    stage.suspend_and_resume()?;
    say("Done. The scratch directory goes away with this demo.");
    Ok(())
}

#[expect(clippy::print_stdout, reason = "a demo shows what it does")]
fn say(text: &str) {
    println!("\n\x1b[1m── {text}\x1b[0m");
}

/// The demo's home, workspace and state directory.
struct Stage<'a> {
    caretaker: &'a Path,
    scratch: &'a Path,
}

impl Stage<'_> {
    fn workspace(&self) -> std::path::PathBuf {
        self.scratch.join("home").join("project")
    }

    fn suspend_and_resume(&self) -> anyhow::Result<()> {
        say("A run in the background, in the middle of a slow command:");
        let prompt = "Run the slow tests. The password is heron.\n\
                      ```agent\nsay I am running them.\nshell sleep 600\n```";
        self.caretaker(&["run", "--agent", "simulated", "--name", "slow", "--detach", prompt])?;
        self.wait_for_a_tool("slow")?;
        say("Suspend it. Caretaker knows how much of it is in Cursor's store:");
        self.caretaker(&["suspend", "slow"])?;
        let session = self.session_of("slow")?;
        say("Resume it by the session's UUID, and ask the agent what it remembers:");
        let question = "What did I say?\n```agent\nrecall\n```";
        self.caretaker(&["resume", &session, "--agent", "simulated", question])?;
        say("The whole conversation in Cursor's store:");
        self.caretaker(&["sessions", "show", &session])
    }

    /// Waits until the agent of a run is in a tool call.
    fn wait_for_a_tool(&self, run: &str) -> anyhow::Result<()> {
        let args = ["tail", run, "--follow", "--json"];
        let mut tail = self.command(&args).stdout(Stdio::piped()).spawn()?;
        let lines = tail.stdout.take().map(|out| BufReader::new(out).lines());
        let is_in_a_tool = lines
            .into_iter()
            .flatten()
            .map_while(Result::ok)
            .any(|line| line.contains("\"agent.tool_started\""));
        tail.kill().ok();
        tail.wait()?;
        ensure!(is_in_a_tool, "the run ended before its tool started");
        Ok(())
    }

    fn session_of(&self, run: &str) -> anyhow::Result<String> {
        let output = self.command(&["show", run, "--json"]).output()?;
        let shown: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        Ok(shown["session"].as_str().context("the run has no session")?.to_owned())
    }

    fn caretaker(&self, args: &[&str]) -> anyhow::Result<()> {
        self.perform(&format!("caretaker {}", args.join(" ")), self.command(args))
    }

    fn shell(&self, script: &str) -> anyhow::Result<()> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        self.perform(script, self.prepared(command))
    }

    #[expect(clippy::print_stdout, reason = "a demo shows what it does")]
    fn perform(&self, shown: &str, mut command: Command) -> anyhow::Result<()> {
        println!("\x1b[36m$ {shown}\x1b[0m");
        let status = command.status()?;
        ensure!(status.success(), "the command ended with {status}");
        Ok(())
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.caretaker);
        command.args(args);
        self.prepared(command)
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
