use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use pretty_assertions::assert_eq;
use run_protocol::RunEvent;

use super::*;
use crate::Redaction;
use crate::test_run::{TestState, ended, writer};

fn listed(state: &StateRoot, filter: &RunFilter) -> Vec<RunId> {
    let mut index = RunIndex::open(state).unwrap();
    index.refresh().unwrap();
    index.list(filter).unwrap().into_iter().map(|overview| overview.run).collect()
}

fn all(state: &StateRoot) -> Vec<RunId> {
    listed(state, &RunFilter::default())
}

fn end(directory: &RunDirectory) {
    let (_lock, mut writer) = writer(directory);
    writer.event(9, &ended(), Redaction::Untouched);
    writer.finish().unwrap();
}

fn sql(state: &StateRoot, statement: &str) {
    let connection = crate::index::database::tests::connection(&state.index_db());
    connection.execute_batch(statement).unwrap();
}

#[test]
fn runs_are_listed_newest_first_and_can_be_filtered() {
    let test = TestState::new();
    let (one, two, three) = (test.create(), test.create_named("two"), test.create());
    end(&one);
    let _live = writer(&three);
    let [one, two, three] = [one, two, three].map(|directory| directory.run_id());
    assert_eq!(all(&test.state), [three, two, one]);

    let only = |change: fn(&mut RunFilter)| {
        let mut filter = RunFilter::default();
        change(&mut filter);
        listed(&test.state, &filter)
    };
    assert_eq!(only(|filter| filter.which = Which::Unfinished), [three, two]);
    assert_eq!(only(|filter| filter.name = Some("two".to_owned())), [two]);
    assert_eq!(only(|filter| filter.limit = Some(2)), [three, two]);
    assert_eq!(only(|filter| filter.session = Some("other".to_owned())), []);
    assert_eq!(only(|filter| filter.workspace = Some("/elsewhere".into())), []);
    assert_eq!(only(|filter| filter.workspace = Some("/home/user/project".into())).len(), 3);
    assert_eq!(only(|filter| filter.labels = vec![("team".into(), "blue".into())]).len(), 3);
    assert_eq!(only(|filter| filter.labels = vec![("team".into(), "red".into())]), []);
}

#[test]
fn a_refresh_sees_what_changed_and_reads_nothing_else() {
    let test = TestState::new();
    let directory = test.create();
    let mut index = RunIndex::open(&test.state).unwrap();
    let mut state = || {
        index.refresh().unwrap();
        index.list(&RunFilter::default()).unwrap().remove(0).state
    };
    assert_eq!(state(), RunState::Created);
    let known = KnownRun { stamp: stamp(&directory), finality: Finality::Passing };
    assert!(read_if_changed(&directory, Some(known)).is_none());

    let (lock, mut writer) = writer(&directory);
    assert_eq!(state(), RunState::Starting);
    writer.event(3, &RunEvent::Released, Redaction::Untouched);
    writer.flush().unwrap();
    assert!(matches!(state(), RunState::Running { since_ms: 3, .. }));
    assert!(read_if_changed(&directory, Some(known)).is_some());
    drop(lock);
    drop(writer);
    assert!(matches!(state(), RunState::Lost { .. }));

    end(&directory);
    assert!(matches!(state(), RunState::Ended { .. }));
    // No event comes after the end, but a process may cut or empty a journal.
    fs::write(directory.journal_path(), "").unwrap();
    assert!(matches!(state(), RunState::Lost { .. }));
    fs::remove_dir_all(directory.path()).unwrap();
    assert_eq!(all(&test.state), []);
}

#[test]
fn listing_runs_does_not_create_a_missing_state_directory() {
    let test = TestState::new();
    assert_eq!(all(&test.state), []);
    assert!(!test.state.path().exists());
}

#[test]
fn an_index_that_is_missing_damaged_or_of_another_version_is_rebuilt() {
    let test = TestState::new();
    let run = test.create().run_id();
    let path = test.state.index_db();
    let damages: [&dyn Fn(); 7] = [
        &|| fs::remove_file(&path).unwrap(),
        &|| fs::write(&path, "this is not a database, but it is long enough to be one").unwrap(),
        &|| fs::write(&path, "").unwrap(),
        &|| sql(&test.state, "PRAGMA user_version = 99"),
        // Its writer was killed while it wrote.
        &|| sql(&test.state, "PRAGMA user_version = -1"),
        &|| sql(&test.state, "DROP TABLE runs"),
        &|| sql(&test.state, "UPDATE runs SET overview = '{}'"),
    ];
    for (n_before, damage) in damages.into_iter().enumerate() {
        assert_eq!(all(&test.state), [run]);
        damage();
        // The first process that finds a damaged index removes it, the second rebuilds it.
        assert_eq!(all(&test.state), [run], "damage {n_before}");
        assert_eq!(all(&test.state), [run], "damage {n_before}");
        let database = crate::index::database::tests::connection(&path);
        let version: i32 = database.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
        assert_eq!(version, crate::index::database::VERSION, "damage {n_before}");
    }
}

#[test]
fn damaged_pages_are_noticed_and_the_runs_are_still_listed() {
    let test = TestState::new();
    let runs: Vec<RunId> = (0..50).map(|_| test.create().run_id()).collect();
    assert_eq!(all(&test.state).len(), 50);
    let mut bytes = fs::read(test.state.index_db()).unwrap();
    for byte in &mut bytes[4096..] {
        *byte = 0xa5;
    }
    fs::write(test.state.index_db(), &bytes).unwrap();
    let expected: Vec<RunId> = runs.into_iter().rev().collect();
    assert_eq!(all(&test.state), expected);
    assert_eq!(all(&test.state), expected);
}

#[test]
fn runs_are_listed_even_if_the_index_cannot_be_written() {
    let test = TestState::new();
    let run = test.create().run_id();
    fs::create_dir(test.state.index_db()).unwrap();
    assert_eq!(all(&test.state), [run]);
    assert!(test.state.index_db().is_dir());
}

#[test]
fn deleting_an_open_index_does_no_harm() {
    let test = TestState::new();
    let run = test.create().run_id();
    let mut index = RunIndex::open(&test.state).unwrap();
    index.refresh().unwrap();
    fs::remove_file(test.state.index_db()).unwrap();
    let second = test.create().run_id();
    assert_eq!(all(&test.state), [second, run]);
    index.refresh().unwrap();
    assert_eq!(index.list(&RunFilter::default()).unwrap().len(), 2);
}

#[test]
fn many_may_refresh_at_once_while_runs_come_and_go() {
    let test = TestState::new();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let refreshers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    while !is_over.load(Ordering::SeqCst) {
                        all(&test.state);
                    }
                })
            })
            .collect();
        let deleter = scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                fs::remove_file(test.state.index_db()).ok();
                std::thread::yield_now();
            }
        });
        for n_before in 0..15 {
            let directory = test.create();
            end(&directory);
            if n_before % 3 == 0 {
                fs::remove_dir_all(directory.path()).unwrap();
            }
        }
        is_over.store(true, Ordering::SeqCst);
        deleter.join().unwrap();
        for refresher in refreshers {
            refresher.join().unwrap();
        }
    });
    let mut index = RunIndex::open(&test.state).unwrap();
    index.refresh().unwrap();
    let overviews = index.list(&RunFilter::default()).unwrap();
    assert_eq!(overviews.len(), 10);
    assert!(overviews.iter().all(|overview| matches!(overview.state, RunState::Ended { .. })));
}

/// The child lists the runs again and again.
pub(crate) fn refresh_again_and_again(state: &StateRoot) {
    for _ in 0..100 {
        assert_eq!(all(state).len(), 5);
    }
}

#[test]
fn many_processes_may_refresh_at_once_while_the_index_is_deleted_under_them() {
    let test = TestState::new();
    for _ in 0..5 {
        end(&test.create());
    }
    let role = "refresh again and again";
    let mut children: Vec<_> = (0..3)
        .map(|_| {
            let mut command = crate::test_child::command(role, test.state.path(), None, &[]);
            command.stdout(std::process::Stdio::null()).spawn().unwrap()
        })
        .collect();
    while children.iter_mut().any(|child| child.try_wait().unwrap().is_none()) {
        fs::remove_file(test.state.index_db()).ok();
        std::thread::yield_now();
    }
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
}
