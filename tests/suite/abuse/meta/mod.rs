//! Proves that the attempts can succeed: removes each protection in turn, and then its attempt must escape.
//!
//! The product has no option to weaken a sandbox for this. The test starts a real run and records what the shim passes
//! to bubblewrap: the options, the files, the filters. Then it passes the same to a real bubblewrap in an outer
//! namespace, with the same gate and probe but with exactly one protection removed; see `replay`.

mod prepared_runs;
mod protections;
mod rebinding;
mod recording;
mod replay;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use abuse::{Answer, Attempt, Evidence};

use super::evidence::Snapshot;
use super::hostile::place_of;
use super::table::Verdict;
use protections::{
    AFTER_PREPARATION, EXCLUDED, IN_WORKTREES, Off, PROTECTIONS, Protection, SEEN_INSIDE_ALONE,
};
use recording::Recording;
use replay::Replayed;

/// This many replays run at a time.
const AT_ONCE: usize = 3;

fn attempt(id: &str) -> &'static Attempt {
    let all = abuse::attempts();
    all.into_iter().find(|attempt| attempt.id == id).unwrap_or_else(|| panic!("no attempt {id}"))
}

/// Checks on the outer host that an attempt had no effect. The error describes the effect.
fn look(recording: &Recording, replayed: &Replayed, evidence: Evidence) -> Result<(), String> {
    let Evidence::Intact(paths) = evidence else { return Ok(()) };
    let before = recording.snapshot.join("home");
    let differences = paths.iter().filter_map(|path| {
        let place = place_of(path, &recording.world);
        Snapshot::of(&before.join(&place)).difference(&Snapshot::of(&replayed.home.join(&place)))
    });
    differences.into_iter().next().map_or(Ok(()), Err)
}

/// Removes one protection, and returns the result of each of its attempts. An attempt that does not succeed is an
/// error.
fn check(
    recording: &Recording,
    number: usize,
    protection: &Protection,
) -> Vec<(&'static str, Result<String, String>)> {
    let name = format!("off-{number}");
    let replayed = recording.replay(&name, protection.off, protection.attempts);
    let result = |id: &str| match replayed.answers.get(id) {
        Some(Answer::Done(what)) => {
            let shown = look(recording, &replayed, attempt(id).evidence);
            let is_to_be_shown = matches!(attempt(id).evidence, Evidence::Intact(_))
                && !SEEN_INSIDE_ALONE.contains(&id);
            match (is_to_be_shown, shown) {
                (true, Ok(())) => Err("the host shows no effect".to_owned()),
                (_, Err(shown)) => Ok(format!("{what}; on the host {shown}")),
                (false, Ok(())) => Ok(what.clone()),
            }
        }
        Some(other) => Err(format!("{other:?}")),
        // Newer bubblewrap versions never follow links.
        None if is_refused_by_bubblewrap(protection, &replayed) => {
            Ok("bubblewrap itself refuses it here".to_owned())
        }
        None => Err(format!("no answer: {}", replayed.complaint)),
    };
    protection.attempts.iter().map(|id| (*id, result(id))).collect()
}

fn is_refused_by_bubblewrap(protection: &Protection, replayed: &Replayed) -> bool {
    let is_of_supervisor = |off: &Off| matches!(off, Off::Refusal(_));
    protection.off.iter().any(is_of_supervisor) && replayed.complaint.contains("symlink")
}

/// Removes one protection after another, and returns the results in the order of the list.
fn check_all(recording: &Recording) -> Vec<Vec<(&'static str, Result<String, String>)>> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(protection) = PROTECTIONS.get(number) else { break };
                    let result = check(recording, number, protection);
                    results.lock().unwrap().insert(number, result);
                }
            });
        }
    });
    results.into_inner().unwrap().into_values().collect()
}

#[test]
fn each_attempt_escapes_when_its_protection_is_removed() {
    let Some(recording) = Recording::new() else { return };
    let ids: BTreeSet<&str> =
        PROTECTIONS.iter().flat_map(|protection| protection.attempts).copied().collect();
    // With all protections in place, no attempt succeeds in a replay either.
    let ids: Vec<&str> = ids.into_iter().collect();
    let whole = recording.replay("whole", &[], &ids);
    for id in &ids {
        let attempt = attempt(id);
        let verdict = Verdict::of(attempt, whole.answers.get(*id));
        assert!(matches!(verdict, Verdict::Held(_)), "{id}: {verdict:?} {}", whole.complaint);
        assert_eq!(look(&recording, &whole, attempt.evidence), Ok(()), "{id}");
    }

    let results = check_all(&recording);
    eprintln!("{:<40} {:<5} then the agent …", "removed", "id");
    let mut useless = Vec::new();
    for (protection, attempts) in PROTECTIONS.iter().zip(&results) {
        for (id, result) in attempts {
            let does = attempt(id).does;
            let (Ok(shown) | Err(shown)) = result;
            eprintln!("{:<40} {id:<5} {does}: {shown}", protection.name);
            if result.is_err() {
                useless.push(format!("{id} without {}: {shown}", protection.name));
            }
        }
    }
    for (id, why) in EXCLUDED {
        eprintln!("{:<40} {id:<5} {why}", "(not tried)");
    }
    eprintln!("{} protections, {} attempts", results.len(), results.iter().flatten().count());
    assert_eq!(useless, Vec::<String>::new(), "these attempts prove nothing");
    assert!(results.len() >= 20);
}

#[test]
fn without_the_death_signal_an_agent_outlives_its_shim() {
    let Some(recording) = Recording::new() else { return };
    assert!(!recording.outlives_its_starter("bound", &[], "60"));
    assert!(recording.outlives_its_starter("free", &[Off::Option("--die-with-parent")], "2"));
}

#[test]
fn excluded_attempts_are_not_in_the_list_of_protections() {
    let all = || PROTECTIONS.iter().chain(IN_WORKTREES).chain(AFTER_PREPARATION);
    for (id, _) in EXCLUDED {
        let is_tried = all().any(|protection| protection.attempts.contains(id));
        assert!(!is_tried, "{id}");
    }
}
