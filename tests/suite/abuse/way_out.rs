//! N2-N5: an agent looks for a way out through the shim. The tests run in a namespace whose servers play the outside
//! world, so that nothing reaches the machine's network.

use std::collections::BTreeMap;
use std::path::PathBuf;

use abuse::{Answer, Attempt, Evidence, Neighbour, SMUGGLED, World};

use super::hostile::{Caller, ORDINARY_UID, answers, as_caller, is_root};
use super::table::{Table, Verdict};
use crate::sandbox::network::outside::Outside;
use crate::sandbox::network::{count, network_events};
use crate::stage::programs::copy_program;
use crate::stage::stderr;

const ALLOWED: [&str; 6] =
    ["--allow-host", "allowed.test", "--allow-host", "*.below.test", "--allow-host", "*.trap.test"];
const SECRET: &str = "s3cret-of-the-host";

/// Turns each smuggled name into an attempt, like the other rows.
fn smuggling() -> Vec<Attempt> {
    let rows = SMUGGLED.iter().map(|smuggled| Attempt {
        id: smuggled.id,
        does: smuggled.does,
        held_by: &["refused three ways"],
        evidence: Evidence::NobodyCame,
        act: |_| unreachable!("the probe knows how"),
    });
    rows.collect()
}

/// A world with an outside, and a probe on its stage.
struct Probed {
    outside: Outside,
    probe: PathBuf,
}

impl Probed {
    fn new() -> Option<Self> {
        let outside = Outside::new()?;
        let probe = outside.stage.home().join(".local/bin/sandbox-probe");
        std::fs::create_dir_all(probe.parent().unwrap()).unwrap();
        copy_program(env!("CARGO_BIN_EXE_sandbox-probe").as_ref(), &probe);
        let world = serde_json::to_vec(&world(&outside)).unwrap();
        std::fs::write(outside.stage.workspace().join("world.json"), world).unwrap();
        Some(Self { outside, probe })
    }

    /// Makes attempts, and returns the answers.
    fn answers(&self, caller: Caller, ids: &[&str], flags: &[&str]) -> BTreeMap<String, Answer> {
        let script = format!(
            "shell[timeout=300s] {} try world.json {} > results\nsay done",
            self.probe.display(),
            ids.join(" ")
        );
        let output = match caller {
            Caller::User | Caller::RootForUser if is_root() => {
                self.outside.play_for(ORDINARY_UID, &as_caller(caller), &script, flags)
            }
            _ => self.outside.play(&script, flags),
        };
        assert!(output.status.success(), "{caller:?}: {}", stderr(&output));
        answers(&std::fs::read(self.outside.stage.workspace().join("results")).unwrap())
    }
}

pub(super) fn try_the_way_out(table: &mut Table) {
    let smuggling = smuggling();
    let attempts: Vec<&Attempt> =
        abuse::attempts_on_the_way_out().into_iter().chain(&smuggling).collect();
    let ids: Vec<&str> = attempts.iter().map(|attempt| attempt.id).collect();
    for caller in Caller::ALL {
        if caller != Caller::User && !is_root() {
            table.not_here(caller, attempts.iter().copied(), "we are not root");
            continue;
        }
        let Some(probed) = Probed::new() else {
            table.not_here(caller, attempts.iter().copied(), "cannot create a network here");
            continue;
        };
        let answers = probed.answers(caller, &ids, &ALLOWED);
        // The supervisor looks up only names that end in a listed name. Nothing else may arrive outside.
        let asked = probed.outside.asked();
        let is_trap = |line: &&str| line.starts_with("dns ") && line.ends_with(".trap.test");
        let reached = asked.lines().find(|line| !is_trap(line));
        let run = probed.outside.stage.run_ids().pop().unwrap();
        let events = network_events(&probed.outside.stage.journal(&run));
        let n_told = count(&events, |event| event["kind"] == "net.denied");
        // Each spelling of a name has its own event.
        assert!(n_told >= 3 * smuggling.len() as u64 + 11, "{n_told} refusals: {events:#?}");
        for attempt in &attempts {
            let verdict = match (Verdict::of(attempt, answers.get(attempt.id)), reached) {
                (Verdict::Held(_), Some(line)) => {
                    Verdict::Escaped(format!("a request reached the outside: {line}"))
                }
                (verdict, _) => verdict,
            };
            table.add(caller, attempt.id, attempt.does, verdict);
        }
    }
}

/// Describes a world without a neighbour: here the outside is the target.
fn world(outside: &Outside) -> World {
    let stage = &outside.stage;
    World {
        home: stage.home(),
        workspace: stage.workspace(),
        state: stage.root().join("state"),
        sockets: stage.root().join("run"),
        program: crate::stage::programs::program("caretaker"),
        secret: SECRET.to_owned(),
        key: String::new(),
        buckets: Vec::new(),
        other_session: String::new(),
        host_name: String::new(),
        machine_network: abuse::network_namespace().unwrap(),
        has_writable_settings: false,
        space_bytes: 0,
        neighbour: Neighbour {
            pid: 0,
            port: 0,
            port_6: None,
            abstract_name: String::new(),
            socket: "none".into(),
            shared_memory: 0,
        },
    }
}

/// Returns true if a careless parser would let this name through.
fn is_let_through(read_as: &str) -> bool {
    read_as == "allowed.test" || read_as.ends_with(".below.test")
}

#[test]
fn every_smuggled_name_would_fool_a_careless_reader() {
    for smuggled in SMUGGLED {
        let read_as = (smuggled.read_as)(smuggled.name);
        assert!(is_let_through(&read_as), "{} fools no parser: {read_as:?}", smuggled.id);
    }
}

/// Proves that the list is a protection too: a run reaches a listed host, and with the host's network it reaches
/// everything.
#[test]
fn without_the_list_or_its_own_network_the_way_out_is_open() {
    let caller = if is_root() { Caller::Root } else { Caller::User };
    let on_the_list = ["--allow-host", "denied.test", "--allow-host", "*.evil.test"];
    let off: [(&[&str], &[&str]); 2] =
        [(&on_the_list, &["N2a", "N2b", "N5"]), (&["--network", "host"], &["N1f", "N6b"])];
    for (flags, ids) in off {
        let Some(probed) = Probed::new() else { return };
        let answers = probed.answers(caller, ids, flags);
        for id in ids {
            assert!(matches!(answers[*id], Answer::Done(_)), "{id} {flags:?}: {:?}", answers[*id]);
        }
    }
}
