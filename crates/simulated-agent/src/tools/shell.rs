//! The shell tool: a real shell in a process group of its own.
//!
//! A command that outlasts its timeout is not killed: it runs on in the background and the call "succeeds", as the
//! real one does. Each call has a shell of its own, so a `cd` does not carry over to the next.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use serde_json::{Map, Value, json};

use super::launch::{Launch, Stdio};
use super::output::{Output, Stream};
use super::process_groups::{Exit, ProcessGroups, Role};
use super::shell_syntax::ParsedCommand;
use super::{Generation, PreparedCall, ToolEnvironment, ToolRun};
use crate::permissions::Verdict;

/// How long output is still read after the command ended: only a process that left the group can keep the pipe open.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A command, as a script asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellRequest {
    pub command: String,
    pub timeout: Duration,
    pub background: Background,
    pub description: String,
}

/// Whether a shell call waits for its command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Background {
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
        "fileOutputThresholdBytes": if newer { super::output::SPILL_THRESHOLD.to_string() } else { "0".to_owned() },
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
    // As captured: a call that never ran names its directory in full and says nothing of the background.
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
        // It ended in the very moment of the timeout; the message about it is on its way.
        Err(_) => {
            let exit = running.exited.recv().unwrap_or(Exit::Code(1));
            running.ended(exit, request, environment, started)
        }
    }
}

struct Running {
    leader: Pid,
    output: Arc<Mutex<Output>>,
    /// Told once, after the last output was read.
    exited: Receiver<Exit>,
}

impl Running {
    fn start(request: &ShellRequest, environment: &ToolEnvironment) -> io::Result<Self> {
        let role = match request.background {
            Background::Yes => Role::Background,
            Background::No => Role::Foreground,
        };
        let mut env: Vec<(OsString, OsString)> = environment.env.clone();
        env.retain(|(name, _)| name != "CURSOR_AGENT");
        env.push(("CURSOR_AGENT".into(), "1".into()));
        let launch = Launch {
            program: shell_program(),
            args: &["-c", &request.command].map(OsString::from),
            env: &env,
            directory: &environment.workspace,
            stdin: Stdio::Null,
            stderr: Stdio::Pipe,
        };
        let (group, pipes) = environment.processes.start(&launch, role)?;
        let leader = group.leader();
        let output = Arc::new(Mutex::new(Output::new(environment)));
        let (reading, all_read) = mpsc::channel();
        read_in_thread(pipes.stdout, Stream::Stdout, &output, reading.clone());
        if let Some(stderr) = pipes.stderr {
            read_in_thread(stderr, Stream::Stderr, &output, reading);
        }
        let (exit, exited) = mpsc::channel();
        thread::spawn(move || {
            let last_words = || all_read.recv_timeout(LAST_WORDS).unwrap_or_default();
            // Whether anybody still listens does not matter: the child must be reaped.
            exit.send(group.wait(last_words)).ok();
        });
        Ok(Self { leader, output, exited })
    }

    fn output(&self) -> MutexGuard<'_, Output> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ended(
        &self,
        exit: Exit,
        request: &ShellRequest,
        environment: &ToolEnvironment,
        started: Instant,
    ) -> ToolRun {
        let output = self.output();
        let elapsed = milliseconds(started);
        let (exit_code, signal) = match exit {
            Exit::Code(code) => (code, ""),
            Exit::Signal(signal) => (128 + signal as i32, signal.as_str()),
        };
        let mut value = common_fields(request, exit_code, signal, &output, elapsed);
        if environment.generation == Generation::V2026_09 {
            value.insert("localExecutionTimeMs".to_owned(), json!(elapsed));
        }
        let mut for_model = format!(
            "Exit code: {exit_code}\n\nCommand output:\n\n```\n{}\n```\n\n",
            output.interleaved()
        );
        if let Some(location) = output.location() {
            let path = location["filePath"].as_str().unwrap_or_default();
            for_model += &format!("The output was cut; all of it is in {path}.\n\n");
        }
        for_model += &format!("Command completed in {elapsed} ms.");
        if exit == Exit::Code(0) {
            return ToolRun::success(Value::Object(value), for_model);
        }
        value.insert("aborted".to_owned(), json!(aborted(exit, &environment.processes)));
        ToolRun::failed("failure", Value::Object(value), for_model)
    }

    fn in_background(
        &self,
        request: &ShellRequest,
        environment: &ToolEnvironment,
        started: Instant,
    ) -> ToolRun {
        let pid = self.leader.as_raw();
        let folder = environment.project_directory.path().join("terminals");
        let mut output = self.output();
        output.spill_into(&folder.join(format!("{pid}.txt")));
        let mut value = common_fields(request, 0, "", &output, milliseconds(started));
        value.insert("shellId".to_owned(), json!(pid));
        value.insert("pid".to_owned(), json!(pid));
        value.insert("msToWait".to_owned(), json!(request.timeout_ms()));
        let for_model = format!(
            "The command runs in the background with pid {pid}; its output goes to {}/{pid}.txt.",
            folder.display()
        );
        let mut tool_run = ToolRun::success(Value::Object(value), for_model);
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
) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("command".to_owned(), json!(request.command));
    fields.insert("workingDirectory".to_owned(), json!(""));
    fields.insert("exitCode".to_owned(), json!(exit_code));
    fields.insert("signal".to_owned(), json!(signal));
    fields.insert("stdout".to_owned(), json!(output.stdout()));
    fields.insert("stderr".to_owned(), json!(output.stderr()));
    fields.insert("executionTime".to_owned(), json!(elapsed));
    if let Some(location) = output.location() {
        fields.insert("outputLocation".to_owned(), location);
    }
    fields.insert("interleavedOutput".to_owned(), json!(output.interleaved()));
    fields
}

/// Reads until the pipe ends; `reading` is dropped then.
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
                Ok(n_read) => {
                    output
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(stream, &buffer[..n_read]);
                }
                Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        drop(reading);
    });
}

/// Only our own `kill_all` counts: a command that killed itself was not aborted.
fn aborted(exit: Exit, processes: &ProcessGroups) -> bool {
    matches!(exit, Exit::Signal(_)) && processes.is_closed()
}

fn shell_program() -> &'static OsStr {
    let candidates = ["/bin/bash", "/usr/bin/bash"];
    OsStr::new(candidates.into_iter().find(|path| Path::new(path).exists()).unwrap_or("/bin/sh"))
}

fn milliseconds(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "shell_tests.rs"]
mod tests;
