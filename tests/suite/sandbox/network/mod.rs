//! A run's network, tested with real programs in a namespace with its own outside; see `outside.sh`.

mod certificates;
pub(crate) mod outside;
mod tunnels;

use std::collections::BTreeMap;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::stage::namespace::Namespace;
use crate::stage::{Entry, Stage, assert_exit, stderr};
use outside::Outside;

const ALLOWED: [&str; 6] =
    ["--allow-host", "allowed.test", "--allow-host", "*.below.test", "--allow-host", "*.trap.test"];
/// The TLS alert for a host that is not allowed.
const ALERT: &str = "15030300020231";

/// Returns the network events of a journal.
pub(crate) fn network_events(journal: &[Entry]) -> Vec<Value> {
    let events = journal.iter().map(|entry| entry.line["run"].clone());
    events
        .filter(|event| event["kind"].as_str().is_some_and(|kind| kind.starts_with("net.")))
        .collect()
}

/// Counts the recorded events that match `is_it`.
pub(crate) fn count(events: &[Value], is_it: impl Fn(&Value) -> bool) -> u64 {
    events.iter().filter(|event| is_it(event)).map(|event| event["count"].as_u64().unwrap()).sum()
}

fn results(outside: &Outside) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(outside.stage.workspace().join("results")).unwrap();
    text.lines()
        .map(|line| {
            let result: Value = serde_json::from_str(line).unwrap();
            let field = |name: &str| result[name].as_str().unwrap().to_owned();
            (field("id"), field("got"))
        })
        .collect()
}

#[test]
fn every_client_reaches_what_is_on_the_list_and_nothing_else() {
    let Some(outside) = Outside::new() else { return };
    let script = "shell[timeout=300s] node attempts.js > results\nsay done";
    let output = outside.play(script, &ALLOWED);
    assert_exit(&output, 0);
    let results = results(&outside);
    assert_eq!(results["done"], "yes");
    let run = outside.stage.run_ids().pop().unwrap();
    let events = network_events(&outside.stage.journal(&run));
    let commit = outside.commit();

    for host in ["allowed.test", "api.below.test"] {
        for client in ["fetch", "https"] {
            assert_eq!(results[&format!("{client} {host}")], format!("reached {host} over 1.1"));
        }
        assert_eq!(results[&format!("http2 {host}")], format!("reached {host} over 2.0"));
        for way in ["proxied", "direct"] {
            // curl uses the newer protocol if both sides support it.
            let curl = &results[&format!("curl {way} {host}")];
            assert!(curl.starts_with(&format!("reached {host} over ")), "{curl}");
            assert_eq!(results[&format!("git {way} {host}")], format!("{commit}\tHEAD"));
            assert_eq!(
                results[&format!("python {way} {host}")],
                format!("reached {host} over 1.1")
            );
        }
        for (via, at_least) in [("dns", 6), ("tls", 6), ("connect", 3)] {
            let n_allowed = count(&events, |event| {
                event["kind"] == "net.allowed" && event["host"] == host && event["via"] == via
            });
            assert!(n_allowed >= at_least, "{host} by {via}: {n_allowed} in {events:#?}");
        }
    }

    for host in ["denied.test", "below.test"] {
        for client in [
            "fetch",
            "https",
            "http2",
            "curl proxied",
            "curl direct",
            "git proxied",
            "git direct",
            "python proxied",
            "python direct",
        ] {
            let got = &results[&format!("{client} {host}")];
            assert!(got.starts_with("failed"), "{client} {host}: {got}");
        }
        for (via, at_least) in [("dns", 6), ("connect", 3)] {
            let n_denied = count(&events, |event| {
                event["kind"] == "net.denied"
                    && event["host"] == host
                    && event["via"] == via
                    && event["reason"] == "not_listed"
            });
            assert!(n_denied >= at_least, "{host} by {via}: {n_denied} in {events:#?}");
        }
    }

    for (trap, what) in [
        ("loop", "127.0.0.1: it is this machine itself"),
        ("meta", "169.254.169.254: it is a link-local address"),
        ("lan", "10.1.2.3: it is in a private network"),
        ("own", "203.0.113.1: it is an address of this machine"),
    ] {
        let tls = &results[&format!("trap tls {trap}")];
        assert!(tls.starts_with("failed"), "{trap}: {tls}");
        let connect = &results[&format!("trap connect {trap}")];
        assert!(connect.starts_with("HTTP/1.1 403"), "{trap}: {connect}");
        for via in ["tls", "connect"] {
            let n_denied = count(&events, |event| {
                event["host"] == format!("{trap}.trap.test")
                    && event["via"] == via
                    && event["reason"] == "forbidden_address"
                    && event["detail"].as_str().unwrap().contains(what)
            });
            assert!(n_denied >= 1, "{trap} by {via} in {events:#?}");
        }
    }

    for unreachable in ["tcp host", "tcp metadata", "tcp supervisor"] {
        assert_eq!(results[unreachable], "ENETUNREACH", "{unreachable}");
    }
    assert_eq!(results["tcp port 22"], "ECONNREFUSED");
    assert!(results["connect port 22"].ends_with("--allow-host allowed.test:22\n"));
    assert!(results["plain http"].starts_with("HTTP/1.1 405 "));
    assert_eq!(results["no server name"], ALERT);
    for (reason, via) in
        [("port_not_listed", "connect"), ("plain_http", "connect"), ("no_name", "tls")]
    {
        let n_denied = count(&events, |event| event["reason"] == reason && event["via"] == via);
        assert_eq!(n_denied, 1, "{reason} by {via}");
    }

    let smuggled = |via: &str| {
        let begin = format!("smuggled {via} ");
        let results = results.iter().filter(|(id, _)| id.starts_with(&begin));
        let results: Vec<_> = results.map(|(id, got)| (id.clone(), got.clone())).collect();
        assert_eq!(results.len(), 25, "{via}");
        results
    };
    for (id, got) in smuggled("tls") {
        assert_eq!(got, ALERT, "{id}");
    }
    for (id, got) in smuggled("connect") {
        assert!(
            got.starts_with("HTTP/1.1 400 ") || got.starts_with("HTTP/1.1 403 "),
            "{id}: {got}"
        );
    }
    for (id, got) in smuggled("dns") {
        assert_eq!(got, "no such name", "{id}");
    }
    // The shim refuses the five plain names because they are not on the list, and the others because they are not
    // names.
    let n_odd = |via: &str| {
        count(&events, |event| {
            let odd = ["bad_name", "bad_request"].iter().any(|odd| event["reason"] == *odd);
            odd && event["via"] == via
        })
    };
    assert_eq!((n_odd("tls"), n_odd("dns")), (21, 21), "{events:#?}");
    assert_eq!(n_odd("connect"), 21, "{events:#?}");

    // No host outside got any other request.
    let asked = outside.asked();
    let allowed = ["allowed.test", "api.below.test"];
    for line in asked.lines() {
        let (kind, rest) = line.split_once(' ').unwrap();
        let host = rest.split([' ', ':']).next().unwrap();
        let is_trap = kind == "dns" && host.ends_with(".trap.test");
        assert!(is_trap || allowed.contains(&host), "{line}");
    }
}

#[test]
fn the_network_log_names_each_attempt_and_the_flag_that_would_allow_it() {
    let Some(outside) = Outside::new() else { return };
    let script = "shell curl -sS --cacert ca.pem https://allowed.test; curl -sS https://denied.test; true\nsay done";
    let output = outside.play(script, &["--allow-host", "allowed.test"]);
    assert_exit(&output, 0);
    let seen = String::from_utf8(output.stdout).unwrap();
    assert!(seen.contains("· network: allowed.test\n"), "{seen}");
    assert!(
        seen.contains("! network: denied.test refused: not on the allow-list\n  hint: --allow-host denied.test\n"),
        "{seen}"
    );

    let stage = &outside.stage;
    let log = String::from_utf8(stage.output(&["sandbox", "net-log", "-"]).stdout).unwrap();
    assert!(log.contains("connect allowed  allowed.test\n"), "{log}");
    assert!(log.contains("connect denied   denied.test: not on the allow-list"), "{log}");
    let log = stage.output(&["sandbox", "net-log", "-", "--json"]).stdout;
    let lines: Vec<Value> = String::from_utf8(log)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let denied = lines.iter().find(|line| line["kind"] == "net.denied").unwrap();
    assert_eq!(denied["host"], "denied.test");

    let shown = stage.output(&["show", "-", "--json"]).stdout;
    let shown: Value = serde_json::from_slice(&shown).unwrap();
    assert_eq!(shown["network"]["mode"], "allowlist");
    assert_eq!(shown["network"]["allowed"][0]["host"], "allowed.test");
    assert_eq!(shown["network"]["denied"][0]["allow_with"], "--allow-host denied.test");
    let shown = String::from_utf8(stage.output(&["show", "-"]).stdout).unwrap();
    assert!(shown.contains("reached allowed.test"), "{shown}");
    assert!(
        shown.contains("refused denied.test: not on the allow-list; --allow-host denied.test"),
        "{shown}"
    );
}

#[test]
fn a_refused_self_update_is_only_in_the_log() {
    let stage = Stage::new();
    let ask = |host: &str| {
        let proxy = "exec 3<>/dev/tcp/127.0.0.1/3128";
        format!(
            "shell bash -c '{proxy}; printf \"CONNECT {host}:443 HTTP/1.1\\r\\n\\r\\n\" >&3; cat <&3'"
        )
    };
    let (update, other) = (ask("downloads.cursor.com"), ask("downloads.example.org"));
    let prompt = format!("```agent\n{update}\n{other}\nsay done\n```\n");
    let output = stage.output(&["run", "--agent", "simulated", &prompt]);
    assert_exit(&output, 0);
    let seen = |output: std::process::Output| {
        let lines = String::from_utf8(output.stdout).unwrap();
        let lines = lines.lines().filter(|line| line.contains("refused"));
        lines.map(ToOwned::to_owned).collect::<Vec<_>>().join("\n")
    };
    for said in [seen(output), seen(stage.output(&["show", "-"]))] {
        assert!(said.contains("downloads.example.org"), "{said}");
        assert!(!said.contains("downloads.cursor.com"), "{said}");
    }
    let log = String::from_utf8(stage.output(&["sandbox", "net-log", "-"]).stdout).unwrap();
    assert!(log.contains("connect denied   downloads.cursor.com: not on the allow-list"), "{log}");
}

#[test]
fn the_supervisor_uses_the_hosts_proxy_and_the_agent_does_not_see_it() {
    let Some(outside) = Outside::new() else { return };
    let script = "shell env | grep -i proxy | sort > seen; curl -sS --cacert ca.pem https://allowed.test > got\nsay done";
    let proxy = "http://ada:s3cret-enough-to-see@203.0.113.10:8080";
    let output =
        outside.play_with(&[("HTTPS_PROXY", proxy)], script, &["--allow-host", "allowed.test"]);
    assert_exit(&output, 0);
    let file = |name: &str| std::fs::read_to_string(outside.stage.workspace().join(name)).unwrap();
    assert_eq!(file("got").split(" over").next(), Some("reached allowed.test"));
    assert_eq!(
        file("seen"),
        "HTTPS_PROXY=http://127.0.0.1:3128\nNO_PROXY=localhost,127.0.0.1,::1,0.0.0.0\n\
         http_proxy=\nhttps_proxy=http://127.0.0.1:3128\nno_proxy=localhost,127.0.0.1,::1,0.0.0.0\n"
            .replace("http_proxy=\n", "")
            .as_str()
    );
    let asked = outside.asked();
    let proxied = asked.lines().find(|line| line.starts_with("proxy ")).unwrap();
    assert!(proxied.starts_with("proxy allowed.test:443 Basic "), "{proxied}");
    assert!(!asked.contains("dns "), "the proxy must look up names: {asked}");
}

#[test]
fn the_modes_differ_in_what_they_reach() {
    let Some(outside) = Outside::new() else { return };
    let script = "shell curl -sS -k https://denied.test > got 2> complaint; true\nsay done";
    let got = || std::fs::read_to_string(outside.stage.workspace().join("got")).unwrap();
    let mode = || {
        let run = outside.stage.run_ids().pop().unwrap();
        let journal = outside.stage.journal(&run);
        let ready = journal.iter().find(|entry| entry.line["run"]["kind"] == "sandbox_ready");
        ready.unwrap().line["run"]["network"].clone()
    };
    outside.play(script, &["--network", "host"]);
    assert!(got().starts_with("reached denied.test"), "{}", got());
    assert_eq!(mode(), json!("host"));
    outside.play(script, &["--network", "none", "--allow-host", "denied.test"]);
    assert_eq!((got().as_str(), mode()), ("", json!("none")));
    outside.play(script, &[]);
    assert_eq!((got().as_str(), mode()), ("", json!("allowlist")));
    outside.play(script, &["--network", "allowlist", "--allow-host", "denied.test"]);
    assert!(got().starts_with("reached denied.test"), "{}", got());
}

#[test]
fn a_sandbox_without_its_own_network_is_not_released() {
    let Some(namespace) = Namespace::with_mounts() else { return };
    let stage = Stage::new();
    // A bubblewrap that drops an option.
    let bwrap = format!(
        "#!/bin/sh\n\
         case \" $* \" in *' --args '*) sed -z '/^--unshare-net$/d' <&3 > '{0}'; exec 3< '{0}' ;; esac\n\
         exec /usr/bin/bwrap \"$@\"\n",
        stage.root().join("args").display()
    );
    let prompt = "```agent\nshell touch it-ran\n```\n";
    let mut command = stage.caretaker(&["run", "--agent", "simulated", prompt]);
    namespace.trust_bubblewrap(&stage, bwrap.as_bytes(), &mut command);
    let output = namespace.command(&[], &command).output().unwrap();
    assert_exit(&output, 125);
    let ended = stage.ended();
    assert_eq!(ended["outcome"], "sandbox_failed", "{ended}");
    let why = ended["why"].as_str().unwrap();
    assert!(why.contains("the sandbox has no network of its own"), "{why}");
    assert!(!stage.workspace().join("it-ran").exists());
    stage.assert_no_survivors("a run that was refused");
}

#[test]
fn hosts_that_cannot_be_allowed_are_refused_before_anything_begins() {
    let stage = Stage::new();
    for (host, expected) in [
        ("https://allowed.test/x", "write only the host: `allowed.test`"),
        ("10.0.0.1", "it is an address, not a name"),
        ("*", "the network mode `host`"),
        ("Allowed.test", "it has upper-case letters"),
    ] {
        let output = stage.output(&["run", "--agent", "simulated", "--allow-host", host, "say hi"]);
        assert_eq!(output.status.code(), Some(2), "{host}");
        assert!(stderr(&output).contains(expected), "{host}: {}", stderr(&output));
    }
    stage.configure("min_free = \"0\"\nallow_hosts = [\"ok.test\", \"not ok\"]\n");
    let output = stage.output(&["run", "--agent", "simulated", "say hi"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("line 2: `not ok` is not a host name"), "{}", stderr(&output));
    assert!(stage.run_ids().is_empty());
}
