//! Machines that cannot create a sandbox: the error names the cause and the remedy, and nothing runs.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::stage::namespace::Namespace;
use crate::stage::{Stage, assert_exit, stderr};

const PROMPT: &str = "```agent\nshell touch it-ran\n```\n";
const RUN: [&str; 4] = ["run", "--agent", "simulated", PROMPT];

/// Checks that a run was refused properly.
#[track_caller]
fn check_refused(stage: &Stage, output: &Output, cause: &str, remedy: &str) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains(cause), "{cause}: {said}");
    let (_, hint) = said.split_once("hint:").unwrap_or_default();
    assert!(hint.contains(remedy), "{remedy}: {said}");
    assert!(
        !said.contains("--sandbox off"),
        "the hint must not suggest a run without a sandbox: {said}"
    );
    assert_eq!(stage.run_ids(), Vec::<String>::new());
    assert_eq!(fs::read_dir(stage.workspace()).unwrap().count(), 0);
}

/// Writes a bubblewrap that fails with this message whenever it should create a sandbox.
fn complaining(words: &str) -> String {
    format!(
        "#!/bin/sh\ncase \"$1\" in --help|--version) exec /usr/bin/bwrap \"$1\" ;; esac\necho \"{words}\" >&2\nexit 1\n"
    )
}

#[test]
fn known_errors_of_bubblewrap_are_shown_with_their_remedy() {
    let Some(namespace) = Namespace::with_mounts() else { return };
    for (words, cause, remedy) in [
        (
            "bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)",
            "no more user namespaces",
            "user.max_user_namespaces=15000",
        ),
        (
            "bwrap: No permissions to create new namespace, likely because the kernel does not allow non-privileged user namespaces. See <https://deb.li/bubblewrap>",
            "does not let ordinary users make user namespaces",
            "kernel.unprivileged_userns_clone=1",
        ),
        ("bwrap: setting up uid map: Permission denied", "AppArmor", "/etc/apparmor.d/bwrap"),
        (
            "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted",
            "AppArmor",
            "/etc/apparmor.d/bwrap",
        ),
        (
            "bwrap: Can't mount proc on /newroot/proc: Operation not permitted",
            "a new /proc cannot be mounted",
            "--security-opt systempaths=unconfined",
        ),
    ] {
        let stage = Stage::new();
        let mut command = stage.caretaker(&RUN);
        namespace.trust_bubblewrap(&stage, complaining(words).as_bytes(), &mut command);
        let output = namespace.command(&[], &command).output().unwrap();
        check_refused(&stage, &output, cause, remedy);
        assert!(stderr(&output).contains(words), "{}", stderr(&output));

        let mut doctor = stage.caretaker(&["doctor", "--agent", "simulated", "--json"]);
        namespace.trust_bubblewrap(&stage, complaining(words).as_bytes(), &mut doctor);
        let output = namespace.command(&[], &doctor).output().unwrap();
        assert_exit(&output, 1);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let checks = report["checks"].as_array().unwrap();
        let sandbox = checks.iter().find(|check| check["id"] == "sandbox").unwrap();
        assert_eq!(sandbox["status"], "failure", "{sandbox}");
        assert!(sandbox["fix"].as_str().unwrap().contains(remedy), "{sandbox}");
        assert!(
            !checks.iter().any(|check| check["id"] == "files"),
            "the report must not promise any protection: {report}"
        );
    }
}

#[test]
fn a_machine_without_a_trusted_bubblewrap_runs_nothing() {
    let Some(namespace) = Namespace::with_mounts() else { return };
    let stage = Stage::new();
    let output =
        stage.caretaker(&RUN).env("PATH", stage.root().join("no-programs")).output().unwrap();
    check_refused(&stage, &output, "bubblewrap is not installed", "apt-get install bubblewrap");

    let program = fs::read("/usr/bin/bwrap").unwrap();
    for (mode, cause, remedy) in [
        (0o4755, "is set-user-id", "chmod u-s"),
        (0o757, "is writable by users other than root", "chmod go-w"),
    ] {
        let stage = Stage::new();
        let mut command = stage.caretaker(&RUN);
        namespace.trust_bubblewrap(&stage, &program, &mut command);
        let bwrap = stage.root().join("bin/bwrap");
        fs::set_permissions(&bwrap, Permissions::from_mode(mode)).unwrap();
        let output = namespace.command(&[], &command).output().unwrap();
        check_refused(&stage, &output, cause, remedy);
    }
}

/// Runs a command as root of a new user namespace, after a shell command has prepared it.
fn in_user_namespace(stage: &Stage, namespace: Namespace, prepare: &str) -> Option<Output> {
    let mut command = stage.caretaker(&RUN);
    namespace.trust(stage, &mut command);
    let script = format!("{{ {prepare}; }} || exit 99; exec \"$@\"");
    let mut wrapped = Command::new("unshare");
    wrapped
        .args(["-Urm", "sh", "-c", &script, "sh"])
        .arg(command.get_program())
        .args(command.get_args())
        .env_clear()
        .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .current_dir(stage.workspace())
        .stdin(Stdio::null());
    let output = wrapped.output().unwrap();
    if output.status.code() == Some(99) || stderr(&output).starts_with("unshare:") {
        eprintln!("cannot prepare this here, so nothing was tested: {}", stderr(&output));
        return None;
    }
    Some(output)
}

#[test]
fn if_the_kernel_forbids_user_namespaces_the_error_names_the_setting() {
    let Some(namespace) = Namespace::with_mounts() else { return };
    let stage = Stage::new();
    let none = "echo 0 > /proc/sys/user/max_user_namespaces";
    let Some(output) = in_user_namespace(&stage, namespace, none) else { return };
    check_refused(
        &stage,
        &output,
        "no more user namespaces",
        "sysctl -w user.max_user_namespaces=15000",
    );
}

#[test]
fn if_a_container_hides_parts_of_proc_the_error_names_the_option_that_shows_them() {
    let Some(namespace) = Namespace::with_mounts() else { return };
    let stage = Stage::new();
    let mask = "mount -t tmpfs none /proc/tty";
    let Some(output) = in_user_namespace(&stage, namespace, mask) else { return };
    check_refused(
        &stage,
        &output,
        "a new /proc cannot be mounted",
        "--security-opt systempaths=unconfined",
    );
}

#[test]
fn a_bubblewrap_that_fails_only_when_it_matters_is_explained_too_and_nothing_runs() {
    let Some(namespace) = Namespace::with_mounts() else { return };
    let stage = Stage::new();
    // The trial works, but the sandbox itself does not.
    let bwrap = "#!/bin/sh\ncase \" $* \" in *' --args '*) echo 'bwrap: No permissions to create new namespace' >&2; exit 1 ;; esac\nexec /usr/bin/bwrap \"$@\"\n";
    let mut command = stage.caretaker(&RUN);
    namespace.trust_bubblewrap(&stage, bwrap.as_bytes(), &mut command);
    let output = namespace.command(&[], &command).output().unwrap();
    assert_exit(&output, 125);
    let ended = stage.ended();
    assert_eq!(ended["outcome"], "sandbox_failed");
    let why = ended["why"].as_str().unwrap();
    assert!(why.contains("ordinary users") && why.contains("unprivileged_userns_clone=1"), "{why}");
    assert_eq!(fs::read_dir(stage.workspace()).unwrap().count(), 0);
}

#[test]
fn doctor_promises_in_the_words_of_the_sandbox_page() {
    let stage = Stage::new();
    let output = stage.output(&["doctor", "--agent", "simulated", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let plain = |text: &str| -> String {
        let words: Vec<&str> = text.split_whitespace().collect();
        words.join(" ").replace(['*', '`'], "").to_lowercase()
    };
    let page = crate::stage::programs::checkout().join("sandbox/README.md");
    let page = plain(&fs::read_to_string(page).unwrap());
    let promises: Vec<&Value> = report["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| {
            ["files", "processes", "privileges", "beyond"].contains(&check["id"].as_str().unwrap())
        })
        .collect();
    assert_eq!(promises.len(), 4, "{report}");
    for promise in promises {
        let summary = plain(promise["summary"].as_str().unwrap());
        assert!(page.contains(&summary), "sandbox/README.md does not say: {summary}");
    }
}
