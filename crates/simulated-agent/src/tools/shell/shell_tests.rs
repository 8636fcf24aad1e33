use std::fs;

use pretty_assertions::assert_eq;

use super::*;
use crate::permissions::ApprovalPolicy;
use crate::tools::test_environment::TestEnvironment;
use crate::tools::{ArgsKept, ToolRequest};

const LONG: Duration = Duration::from_secs(60);

fn request(command: &str, timeout: Duration) -> ToolRequest {
    let (command, description) = (command.to_owned(), "Does something".to_owned());
    ToolRequest::Shell(ShellRequest { command, timeout, background: Background::No, description })
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn a_command_runs_in_the_workspace_and_says_that_it_runs_for_an_agent() {
    let environment = TestEnvironment::new();
    let (_, tool_run) = environment
        .call(&request("pwd; echo $CURSOR_AGENT; echo oops >&2; read x || echo no input", LONG));
    let success = &tool_run.result["success"];
    let workspace = environment.workspace.display();
    assert_eq!(success["stdout"], json!(format!("{workspace}\n1\nno input\n")));
    assert_eq!(success["stderr"], json!("oops\n"));
    assert_eq!((&success["exitCode"], &success["signal"]), (&json!(0), &json!("")));
    assert_eq!(tool_run.result["isBackground"], json!(false));
    assert!(
        tool_run.for_model.starts_with("Exit code: 0\n\nCommand output:\n\n```\n"),
        "{}",
        tool_run.for_model
    );
    assert!(!tool_run.is_error);
}

#[test]
fn a_command_that_fails_is_a_failure_with_its_code() {
    let (_, tool_run) = TestEnvironment::new().call(&request("echo before; exit 3", LONG));
    assert_eq!(keys(&tool_run.result), ["failure", "isBackground"]);
    let failure = &tool_run.result["failure"];
    assert_eq!((&failure["exitCode"], &failure["stdout"]), (&json!(3), &json!("before\n")));
    assert_eq!(failure["aborted"], json!(false));
    assert!(tool_run.is_error);
    assert_eq!(tool_run.args_kept, ArgsKept::Kept);
}

#[test]
fn a_command_that_kills_itself_names_the_signal() {
    let (_, tool_run) = TestEnvironment::new().call(&request("kill -TERM $$", LONG));
    let failure = &tool_run.result["failure"];
    assert_eq!((&failure["exitCode"], &failure["signal"]), (&json!(143), &json!("SIGTERM")));
    assert_eq!(failure["aborted"], json!(false));
}

#[test]
fn a_command_past_its_timeout_goes_to_the_background_as_a_success() {
    let environment = TestEnvironment::new();
    // The command waits for a file, so that the test decides when it ends.
    let script = "echo early; until [ -e go ]; do sleep 0.01; done; echo late";
    let (_, tool_run) = environment.call(&request(script, Duration::from_millis(300)));
    assert_eq!(keys(&tool_run.result), ["success", "isBackground", "terminalsFolder", "pid"]);
    assert_eq!(tool_run.result["isBackground"], json!(true));
    assert_eq!(tool_run.result["success"]["msToWait"], json!(300));
    assert_eq!(environment.processes.n_background(), 1);
    environment.file("go", "");
    assert_eq!(environment.processes.wait_for_background(LONG), 0);
    let folder = Path::new(tool_run.result["terminalsFolder"].as_str().unwrap());
    let file = folder.join(format!("{}.txt", tool_run.result["pid"]));
    assert_eq!(fs::read_to_string(&file).unwrap(), "early\nlate\n");
}

#[test]
fn a_background_command_returns_at_once_and_is_aborted_at_the_end() {
    let environment = TestEnvironment::new();
    let (command, description) = ("sleep 1000".to_owned(), String::new());
    let request = ShellRequest { command, timeout: LONG, background: Background::Yes, description };
    let (prepared, tool_run) = environment.call(&ToolRequest::Shell(request));
    assert_eq!(prepared.args["isBackground"], json!(true));
    assert_eq!(tool_run.result["isBackground"], json!(true));
    assert_eq!(environment.processes.wait_for_background(Duration::ZERO), 1);
    assert_eq!(environment.processes.n_background(), 0);
}

#[test]
fn killing_the_tools_ends_a_running_call_as_aborted() {
    let environment = TestEnvironment::new();
    let begun = environment.workspace.join("begun");
    nix::unistd::mkfifo(&begun, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let call = request("echo > begun; sleep 1000", LONG);
    thread::scope(|scope| {
        let running = scope.spawn(|| environment.call(&call).1);
        // Opening the pipe waits for the command to open it.
        fs::read(&begun).unwrap();
        assert_eq!(environment.processes.kill_all(), 1);
        let failure = &running.join().unwrap().result["failure"];
        assert_eq!((&failure["aborted"], &failure["signal"]), (&json!(true), &json!("SIGKILL")));
    });
    let (_, late) = environment.call(&request("true", LONG));
    assert_eq!(keys(&late.result), ["spawnError", "isBackground"]);
}

#[test]
fn a_process_that_left_the_group_does_not_hold_up_the_call() {
    let environment = TestEnvironment::new();
    let script = "setsid sh -c 'echo $$ > pid; exec sleep 600' & until [ -s pid ]; do sleep 0.01; done; echo done";
    let (_, tool_run) = environment.call(&request(script, LONG));
    assert_eq!(tool_run.result["success"]["stdout"], json!("done\n"));
    let pid =
        fs::read_to_string(environment.workspace.join("pid")).unwrap().trim().parse().unwrap();
    // The process was still alive. The real agent leaves it behind as well.
    nix::sys::signal::kill(Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).unwrap();
}

#[test]
fn long_output_is_in_a_file_that_the_result_names() {
    let environment = TestEnvironment::new();
    let (_, tool_run) = environment
        .call(&request("i=0; while [ $i -lt 5000 ]; do echo 0123456789; i=$((i+1)); done", LONG));
    let success = &tool_run.result["success"];
    let location = &success["outputLocation"];
    assert_eq!((&location["sizeBytes"], &location["lineCount"]), (&json!("55000"), &json!("5000")));
    let path = Path::new(location["filePath"].as_str().unwrap());
    assert_eq!(path.parent().unwrap(), environment.project_directory.agent_tools());
    assert_eq!(fs::read_to_string(path).unwrap().len(), 55_000);
    assert_eq!(success["stdout"].as_str().unwrap().len(), 40_000);
    assert!(tool_run.for_model.contains(path.to_str().unwrap()));
}

#[test]
fn endless_output_fills_neither_memory_nor_pipe() {
    let environment = TestEnvironment::new();
    let (_, tool_run) = environment
        .call(&request("head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2", LONG));
    let success = &tool_run.result["success"];
    assert_eq!(success["outputLocation"]["sizeBytes"], json!("6000000"));
    assert_eq!(success["interleavedOutput"].as_str().unwrap().len(), 40_000);
}

#[test]
fn a_command_that_is_not_listed_is_rejected_as_in_the_captures() {
    let mut environment = TestEnvironment::new();
    environment.permit(ApprovalPolicy::AllowList, &["Shell(ls)"], &["Shell(rm)"]);
    let (_, listed) = environment.call(&request("ls", LONG));
    assert!(!listed.is_error);
    let (_, rejected) = environment.call(&request("touch made", LONG));
    let workspace = environment.workspace.to_str().unwrap();
    assert_eq!(
        rejected.result,
        json!({"rejected": {
            "command": "touch made", "workingDirectory": workspace, "reason": "", "isReadonly": false,
        }})
    );
    assert_eq!(rejected.args_kept, ArgsKept::Dropped);
    assert!(!environment.workspace.join("made").exists());
    environment.permit(ApprovalPolicy::Force, &[], &["Shell(rm)"]);
    let (_, denied) = environment.call(&request("rm -rf x", LONG));
    assert_eq!(keys(&denied.result), ["permissionDenied"]);
    assert_eq!(
        keys(&denied.result["permissionDenied"]),
        ["command", "workingDirectory", "error", "isReadonly"]
    );
    assert_eq!(denied.args_kept, ArgsKept::Kept);
}

#[test]
fn a_workspace_that_is_gone_is_a_spawn_error() {
    let mut environment = TestEnvironment::new();
    environment.workspace = environment.workspace.join("gone");
    let (_, tool_run) = environment.call(&request("true", LONG));
    assert_eq!(keys(&tool_run.result["spawnError"]), ["command", "workingDirectory", "error"]);
}

#[test]
fn calls_from_several_threads_do_not_disturb_each_other() {
    let environment = TestEnvironment::new();
    thread::scope(|scope| {
        let calls: Vec<_> = (0..8)
            .map(|i| {
                let environment = &environment;
                scope.spawn(move || environment.call(&request(&format!("echo {i}"), LONG)).1)
            })
            .collect();
        for (i, call) in calls.into_iter().enumerate() {
            assert_eq!(call.join().unwrap().result["success"]["stdout"], json!(format!("{i}\n")));
        }
    });
}
