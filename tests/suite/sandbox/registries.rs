//! The registries of the user's own tools: the addresses that a run knows, and `--registries`.

use std::fs;

use pretty_assertions::assert_eq;
use serde_json::Value;

use super::network::outside::Outside;
use crate::stage::{Stage, assert_exit, stderr, stdout};

/// A registry with a password, and a token that belongs to it.
const NPMRC: &str = "registry=https://ada:s3cret-of-npm@registry.example.org/a/\n\
                     //registry.example.org/a/:_authToken=s3cret-of-npm\n";

fn stage() -> Stage {
    let stage = Stage::new();
    fs::write(stage.home().join(".npmrc"), NPMRC).unwrap();
    stage
}

/// The hosts that a run with these flags could reach, as the plan says.
fn reachable(stage: &Stage, flags: &[&str]) -> Vec<String> {
    let explain = ["sandbox", "explain", "--agent", "simulated", "--json"];
    let explained = stage.json(&[&explain[..], flags].concat());
    let parts = explained["parts"].as_array().unwrap().clone();
    let details =
        parts.iter().filter_map(|part| part["detail"].as_str()?.strip_suffix(" may be reached"));
    details.filter(|host| host.ends_with("example.org")).map(ToOwned::to_owned).collect()
}

#[test]
fn a_run_knows_the_users_registries_without_their_credentials_and_reaches_none() {
    let stage = stage();
    let script = "shell cat ~/.npmrc > seen; curl -sS https://registry.example.org/a/x 2> complaint; true\nsay done";
    let output = stage.play(script, &[]);
    assert_exit(&output, 0);
    let seen = fs::read_to_string(stage.workspace().join("seen")).unwrap();
    assert_eq!(seen, "registry=https://registry.example.org/a/\n");
    let hint = "! network: registry.example.org refused: one of your registries, not on the allow-list\n  hint: --registries\n";
    assert!(stdout(&output).contains(hint), "{}", stdout(&output));

    let run = stage.run_ids().pop().unwrap();
    let record = fs::read_to_string(stage.runs().join(&run).join("spec.json")).unwrap();
    assert!(record.contains("registry.example.org") && !record.contains("s3cret"), "{record}");
    let log = stdout(&stage.output(&["sandbox", "net-log", "-"]));
    assert!(log.contains("registry.example.org: one of your registries"), "{log}");
    let shown = stage.json(&["show", "-", "--json"]);
    let denied = shown["network"]["denied"].as_array().unwrap();
    assert_eq!(denied[0]["allow_with"], "--registries");
    assert_eq!(denied[0]["reason"], "registry_not_listed");
    // The host's own file stays as it was.
    assert_eq!(fs::read_to_string(stage.home().join(".npmrc")).unwrap(), NPMRC);
}

#[test]
fn hosts_that_only_lock_files_name_must_be_allowed_by_name() {
    let stage = stage();
    let lock = r#"{"packages":{"a":{"resolved":"https://evil.example.org/a.tgz"}}}"#;
    fs::write(stage.workspace().join("package-lock.json"), lock).unwrap();
    // Even the flag does not allow registries from settings in the workspace.
    fs::write(stage.workspace().join(".npmrc"), "registry=https://planted.example.org/\n").unwrap();
    assert_eq!(reachable(&stage, &[]), [] as [&str; 0]);
    assert_eq!(reachable(&stage, &["--registries"]), ["registry.example.org"]);
    let named = reachable(&stage, &["--registries=evil.example.org"]);
    assert_eq!(named, ["registry.example.org", "evil.example.org"]);

    let output = stage.play("say done", &["--registries"]);
    assert_exit(&output, 0);
    let said = stderr(&output);
    assert!(
        said.contains("warning: the run can reach the registries ")
            && said.contains("can carry data out"),
        "{said}"
    );
    assert!(said.contains("to allow them: --registries=evil.example.org"), "{said}");
    // Caretaker does not ask the user, so a detached run behaves the same.
    let run = stage.detach("say done", &["--registries"]);
    stage.output(&["wait", &run]);
    let spec: Value =
        serde_json::from_slice(&fs::read(stage.runs().join(&run).join("spec.json")).unwrap())
            .unwrap();
    let registries = spec["registries"].as_array().unwrap();
    assert!(registries.contains(&"registry.example.org".into()), "{registries:?}");
    assert!(!registries.contains(&"evil.example.org".into()), "{registries:?}");
}

#[test]
fn strict_refuses_registries_and_a_resumed_session_must_name_them() {
    let stage = stage();
    let refused = stage.play("say never", &["--profile", "strict", "--registries"]);
    assert_exit(&refused, 2);
    assert!(
        stderr(&refused).contains("the profile `strict` refuses --registries"),
        "{}",
        stderr(&refused)
    );
    assert_eq!(stage.run_ids(), Vec::<String>::new());

    let session = stage.begin_session();
    let refused = stage.resume(&session, "say never", &["--registries"]);
    assert_exit(&refused, 2);
    assert!(stderr(&refused).contains("--widen registries"), "{}", stderr(&refused));
    assert_exit(&stage.resume(&session, "say done", &["--registries", "--widen", "registries"]), 0);
    // The next run keeps them, without a flag.
    assert_exit(&stage.resume(&session, "say done", &[]), 0);
    let run = stage.run_ids().pop().unwrap();
    let spec = fs::read_to_string(stage.runs().join(run).join("spec.json")).unwrap();
    let spec: Value = serde_json::from_str(&spec).unwrap();
    assert!(spec["registries"].as_array().unwrap().contains(&"registry.example.org".into()));
}

#[test]
fn a_run_with_the_flag_reaches_the_users_registry_and_no_host_from_a_lock_file() {
    let Some(outside) = Outside::new() else { return };
    let stage = &outside.stage;
    fs::write(stage.home().join(".npmrc"), "registry=https://allowed.test/\n").unwrap();
    let lock = r#"{"packages":{"a":{"resolved":"https://denied.test/a.tgz"}}}"#;
    fs::write(stage.workspace().join("package-lock.json"), lock).unwrap();
    let script = "shell for host in allowed denied; do curl -sS --cacert ca.pem https://$host.test > $host; done; true\nsay done";
    let got = |name: &str| fs::read_to_string(stage.workspace().join(name)).unwrap();
    assert_exit(&outside.play(script, &[]), 0);
    assert_eq!((got("allowed"), got("denied")), (String::new(), String::new()));
    let output = outside.play(script, &["--registries"]);
    assert_exit(&output, 0);
    assert!(got("allowed").starts_with("reached allowed.test"), "{}", stderr(&output));
    assert_eq!(got("denied"), "");
    assert!(!outside.asked().contains("denied.test"), "{}", outside.asked());
}

#[test]
fn the_jvm_inside_knows_the_memory_limit() {
    let stage = Stage::new();
    let script = "shell env | grep -E '^(JAVA_TOOL|DOTNET_)' | sort > seen; java -XX:+PrintFlagsFinal -version 2> complaint | grep -w MaxHeapSize > heap; true\nsay done";
    assert_exit(&stage.play(script, &["--memory", "1GiB"]), 0);
    let read = |name: &str| fs::read_to_string(stage.workspace().join(name)).unwrap();
    assert_eq!(
        read("seen"),
        "DOTNET_GCHeapHardLimit=30000000\nJAVA_TOOL_OPTIONS=-XX:MaxRAM=1073741824\n"
    );
    let heap = read("heap");
    if read("complaint").contains("not found") {
        eprintln!("java is not installed here");
        return;
    }
    // A quarter of the limit.
    assert!(heap.contains(" 268435456 "), "{heap}{}", read("complaint"));
}
