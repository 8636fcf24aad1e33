//! The abuse suite: a hostile agent really tries to get out, as an ordinary user and as root, and a table shows the
//! results. The attempts themselves are in `tests/abuse`, one row each; those that need a whole run are in
//! `whole_runs`.
//!
//!     cargo test -p suite abuse -- --nocapture
//!
//! `meta` proves that the attempts can succeed: it removes each protection in turn, and then its attempt must escape.

mod bombs;
mod cache_plants;
mod evidence;
mod git_plants;
mod host_changes;
mod hostile;
mod logins;
mod meta;
mod table;
mod way_out;
mod whole_runs;
mod worktree_plants;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use bombs::{BOMBS, END_THEIR_RUN};
use cache_plants::CACHE_PLANTS;
use git_plants::GIT_PLANTS;
use host_changes::HOST_CHANGES;
use hostile::{Caller, Hostile, is_root};
use logins::LOGINS;
use table::{Table, Verdict};
use way_out::try_the_way_out;
use whole_runs::{WHOLE_RUNS, WholeRun, words_of};
use worktree_plants::WORKTREE_PLANTS;

/// Only a control group or a switch to another user limits root here. Without either, Caretaker warns before the run.
const HELD_FOR_ROOT_BY_A_GROUP_OR_ANOTHER_USER: &[(&str, &str)] = &[(
    "L1a",
    "the kernel does not count root's processes; only a control group or another user limits them",
)];

/// The number of runs at a time.
const AT_ONCE: usize = 3;

/// Makes the probe's attempts for every caller.
fn ordinary_attempts(table: &mut Table) {
    let mut attempts = abuse::attempts();
    attempts.retain(|attempt| !END_THEIR_RUN.contains(&attempt.id));
    for caller in Caller::ALL {
        let Some(hostile) = Hostile::new(caller) else {
            table.not_here(caller, attempts.iter().copied(), "we are not root");
            continue;
        };
        let answers =
            hostile.try_all(&attempts.iter().map(|attempt| attempt.id).collect::<Vec<_>>());
        for attempt in &attempts {
            table.judge(caller, attempt, answers.get(attempt.id), &hostile);
        }
    }
}

/// Makes the attempts that need whole runs, for every caller, a few at a time.
fn whole_runs(table: &mut Table) {
    // The longest runs come first.
    let all: Vec<(&WholeRun, Caller)> = BOMBS
        .iter()
        .chain(WHOLE_RUNS)
        .chain(LOGINS)
        .chain(GIT_PLANTS)
        .chain(CACHE_PLANTS)
        .chain(WORKTREE_PLANTS)
        .chain(HOST_CHANGES)
        .flat_map(|whole| whole.callers.iter().map(move |caller| (whole, *caller)))
        .collect();
    let (next, verdicts) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((whole, caller)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let verdict = verdict_of(whole, *caller);
                    verdicts.lock().unwrap().push((*whole, *caller, verdict));
                }
            });
        }
    });
    for (whole, caller, verdict) in verdicts.into_inner().unwrap() {
        table.add(caller, whole.id, whole.does, verdict);
    }
}

fn verdict_of(whole: &WholeRun, caller: Caller) -> Verdict {
    if caller != Caller::User && !is_root() {
        return Verdict::NotHere("we are not root".to_owned());
    }
    catch_unwind(AssertUnwindSafe(|| (whole.act)(caller)))
        .unwrap_or_else(|panic| Verdict::Escaped(words_of(&*panic)))
}

#[test]
fn every_attempt_is_stopped() {
    let mut table = Table::default();
    ordinary_attempts(&mut table);
    try_the_way_out(&mut table);
    whole_runs(&mut table);
    table.print();
    for (id, why) in HELD_FOR_ROOT_BY_A_GROUP_OR_ANOTHER_USER {
        eprintln!("as root, nothing else stops {id}: {why}");
    }
    assert!(table.n_attempts() >= 55);
    table.check();
}
