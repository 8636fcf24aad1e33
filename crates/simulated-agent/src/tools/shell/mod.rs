//! The shell tool: a real shell in its own process group.
//!
//! A command that exceeds its timeout continues in the background, and the call "succeeds", as with the real agent.
//! Each call has its own shell, so a `cd` does not carry over to the next call.

mod output;
mod syntax;

use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::{Generation, PreparedCall, ToolEnvironment, ToolRun};
use crate::permissions::Verdict;
use crate::process::groups::Role;
use crate::process::lock;
use output::{Output, Stream};

pub(super) use output::{SPILL_THRESHOLD, spill_text};
pub(crate) use syntax::{ParsedCommand, SimpleCommand};

/// The agent reads output for this long after the command has ended. Only a process that left the group can hold the
/// pipe open that long.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A command, as a script asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellRequest {
    pub command: String,
    pub timeout: Duration,
    pub background: Background,
    pub description: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Background {
    /// The call waits for its command.
    No,
    Yes,
}

impl ShellRequest {
    fn timeout_ms(&self) -> u64 {
        u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX)
    }
}

pub(super) fn prepare(
    request: &ShellRequest,
    call_id: &str,
    environment: &ToolEnvironment,
) -> PreparedCall {
    let parsed = ParsedCommand::parse(&request.command);
    let newer = environment.generation == Generation::V2026_09;
    let names: Vec<&str> = parsed.commands.iter().map(|command| command.name.as_str()).collect();
    let mut args = json!({
        "command": request.command,
        "workingDirectory": "",
        "timeout": request.timeout_ms(),
        "toolCallId": call_id,
        "simpleCommands": names,
        "hasInputRedirect": parsed.has_input_redirect(),
        "hasOutputRedirect": parsed.has_output_redirect(),
        "parsingResult": parsing_result(&parsed, environment.generation),
        "fileOutputThresholdBytes": if newer { SPILL_THRESHOLD.to_string() } else { "0".to_owned() },
        "isBackground": request.background == Background::Yes,
        "skipApproval": false,
        "timeoutBehavior": "TIMEOUT_BEHAVIOR_BACKGROUND",
    });
    if newer {
        args["hardTimeout"] = json!(86_400_000);
        args["description"] = json!(request.description);
        args["closeStdin"] = json!(true);
        args["conversationId"] = json!(environment.session_id.to_string());
        args["adminCommandDenylist"] = json!([]);
        args["requestId"] = json!(environment.request_id);
    }
    let mut model_args = json!({"command": request.command, "description": request.description});
    if request.background == Background::Yes {
        model_args["is_background"] = json!(true);
    }
    let description = newer.then(|| request.description.clone());
    PreparedCall { description, ..PreparedCall::new("shellToolCall", "Shell", args, model_args) }
}

fn parsing_result(parsed: &ParsedCommand, generation: Generation) -> Value {
    let commands = parsed.commands.iter().map(|command| {
        let args = command.args.iter().map(|arg| json!({"type": arg.kind, "value": arg.text}));
        json!({"name": command.name, "args": args.collect::<Vec<_>>(), "fullText": command.full_text})
    });
    let mut result = json!({
        "parsingFailed": parsed.parsing_failed,
        "executableCommands": commands.collect::<Vec<_>>(),
        "hasRedirects": !parsed.redirects.is_empty(),
        "hasCommandSubstitution": parsed.has_command_substitution,
    });
    if generation == Generation::V2026_09 {
        let redirects = parsed.redirects.iter();
        let redirects = redirects
            .map(|redirect| json!({"operator": redirect.operator, "target": redirect.target}));
        result["redirects"] = redirects.collect();
    }
    result
}

pub(super) fn run(request: &ShellRequest, environment: &ToolEnvironment) -> ToolRun {
    // As in captures, a call that never ran shows the full path of its directory and no `isBackground`.
    let refusal = |key: &str, text: &str| {
        let workspace = environment.workspace.to_string_lossy();
        json!({"command": request.command, "workingDirectory": workspace, key: text, "isReadonly": false})
    };
    match environment.permissions.shell(&ParsedCommand::parse(&request.command)) {
        Verdict::Allowed => {
            let mut tool_run = execute(request, environment);
            if let Value::Object(result) = &mut tool_run.result {
                result.entry("isBackground").or_insert(json!(false));
            }
            tool_run
        }
        Verdict::NotAllowed => ToolRun::rejected(
            refusal("reason", ""),
            "The command was rejected by the user and did not run.",
        ),
        Verdict::Denied => {
            let error = "Command is denied by the permission settings";
            ToolRun::failed("permissionDenied", refusal("error", error), error)
        }
    }
}

fn execute(request: &ShellRequest, environment: &ToolEnvironment) -> ToolRun {
    let started = Instant::now();
    let running = match Running::start(request, environment) {
        Ok(running) => running,
        Err(err) => {
            let error = err.to_string();
            let value = json!({"command": request.command, "workingDirectory": "", "error": error});
            return ToolRun::failed(
                "spawnError",
                value,
                format!("The command could not be started: {error}"),
            );
        }
    };
    if request.background == Background::Yes {
        return running.in_background(request, environment, started);
    }
    match running.exited.recv_timeout(request.timeout) {
        Ok(exit) => running.ended(exit, request, environment, started),
        Err(_) if environment.processes.move_to_background(running.leader) => {
            running.in_background(request, environment, started)
        }
        // The command ended at the moment of the timeout; its exit arrives next.
        Err(_) => {
            let exit = running.exited.recv().unwrap_or_else(|_| Err(io::Error::other("no exit")));
            running.ended(exit, request, environment, started)
        }
    }
}

struct Running {
    leader: Pid,
    output: Arc<Mutex<Output>>,
    /// Gets one message, after the last output was read.
    exited: Receiver<io::Result<ExitStatus>>,
}

impl Running {
    fn start(request: &ShellRequest, environment: &ToolEnvironment) -> io::Result<Self> {
        let role = match request.background {
            Background::Yes => Role::Background,
            Background::No => Role::Foreground,
        };
        let mut command = Command::new(shell_program());
        command
            .args(["-c", &request.command])
            .env_clear()
            .envs(environment.env.iter().cloned())
            .env("CURSOR_AGENT", "1")
            .current_dir(&environment.workspace)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut group = environment.processes.start(&mut command, role)?;
        let leader = group.leader();
        let output = Arc::new(Mutex::new(Output::new(environment)));
        let (reading, all_read) = mpsc::channel();
        if let (Some(stdout), Some(stderr)) = (group.child.stdout.take(), group.child.stderr.take())
        {
            read_in_thread(stdout, Stream::Stdout, &output, reading.clone());
            read_in_thread(stderr, Stream::Stderr, &output, reading);
        }
        let (exit, exited) = mpsc::channel();
        thread::spawn(move || {
            let last_words = || all_read.recv_timeout(LAST_WORDS).unwrap_or_default();
            // Reap the child even if nothing is waiting for the message any more.
            exit.send(group.wait(last_words)).ok();
        });
        Ok(Self { leader, output, exited })
    }

    fn ended(
        &self,
        exit: io::Result<ExitStatus>,
        request: &ShellRequest,
        environment: &ToolEnvironment,
        started: Instant,
    ) -> ToolRun {
        let output = lock(&self.output);
        let elapsed = milliseconds(started);
        // Without an exit status, the command does not count as a success.
        let signal = exit.as_ref().ok().and_then(ExitStatusExt::signal);
        let name =
            signal.and_then(|number| Signal::try_from(number).ok()).map_or("", Signal::as_str);
        let code = exit.ok().and_then(|status| status.code()).unwrap_or(1);
        let exit_code = signal.map_or(code, |number| 128 + number);
        let mut value = common_fields(request, exit_code, name, &output, elapsed);
        if environment.generation == Generation::V2026_09 {
            value["localExecutionTimeMs"] = json!(elapsed);
        }
        let mut for_model = format!(
            "Exit code: {exit_code}\n\nCommand output:\n\n```\n{}\n```\n\n",
            output.interleaved()
        );
        if let Some(location) = output.location() {
            let path = location["filePath"].as_str().unwrap_or_default();
            for_model += &format!("The output was cut; the whole output is in {path}.\n\n");
        }
        for_model += &format!("Command completed in {elapsed} ms.");
        if exit_code == 0 {
            return ToolRun::success(value, for_model);
        }
        // Only the agent's own `kill_all` aborts: a command that killed itself was not aborted.
        value["aborted"] = json!(signal.is_some() && environment.processes.is_closed());
        ToolRun::failed("failure", value, for_model)
    }

    fn in_background(
        &self,
        request: &ShellRequest,
        environment: &ToolEnvironment,
        started: Instant,
    ) -> ToolRun {
        let pid = self.leader.as_raw();
        let folder = environment.project_directory.path().join("terminals");
        let mut output = lock(&self.output);
        output.spill_into(&folder.join(format!("{pid}.txt")));
        let mut value = common_fields(request, 0, "", &output, milliseconds(started));
        value["shellId"] = json!(pid);
        value["pid"] = json!(pid);
        value["msToWait"] = json!(request.timeout_ms());
        let for_model = format!(
            "The command runs in the background with pid {pid}; its output goes to {}/{pid}.txt.",
            folder.display()
        );
        let mut tool_run = ToolRun::success(value, for_model);
        tool_run.result["isBackground"] = json!(true);
        tool_run.result["terminalsFolder"] = json!(folder.to_string_lossy());
        tool_run.result["pid"] = json!(pid);
        tool_run
    }
}

fn common_fields(
    request: &ShellRequest,
    exit_code: i32,
    signal: &str,
    output: &Output,
    elapsed: u64,
) -> Value {
    let mut fields = json!({
        "command": request.command,
        "workingDirectory": "",
        "exitCode": exit_code,
        "signal": signal,
        "stdout": output.stdout(),
        "stderr": output.stderr(),
        "executionTime": elapsed,
    });
    if let Some(location) = output.location() {
        fields["outputLocation"] = location;
    }
    fields["interleavedOutput"] = json!(output.interleaved());
    fields
}

/// Reads until the pipe ends, and then drops `reading`.
fn read_in_thread(
    mut pipe: impl Read + Send + 'static,
    stream: Stream,
    output: &Arc<Mutex<Output>>,
    reading: Sender<()>,
) {
    let output = Arc::clone(output);
    thread::spawn(move || {
        let mut buffer = [0; 8192];
        loop {
            match pipe.read(&mut buffer) {
                Ok(0) => break,
                Ok(n_read) => lock(&output).push(stream, &buffer[..n_read]),
                Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        drop(reading);
    });
}

fn shell_program() -> &'static str {
    let candidates = ["/bin/bash", "/usr/bin/bash"];
    candidates.into_iter().find(|path| Path::new(path).exists()).unwrap_or("/bin/sh")
}

fn milliseconds(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "shell_tests.rs"]
mod tests;
