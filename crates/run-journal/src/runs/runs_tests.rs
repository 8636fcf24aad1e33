use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};

use pretty_assertions::assert_eq;
use run_protocol::RunEvent;

use super::*;
use crate::Position;
use crate::test_run::{Seen, TestState, first, read, spec};

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_run_that_is_withdrawn_leaves_nothing_behind() {
    let test = TestState::new();
    let spec = spec(RunId::generate());
    let directory = RunDirectory::create(&test.state, &spec, b"do").unwrap();
    let names = || -> Vec<_> {
        let entries = fs::read_dir(test.state.runs()).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect()
    };
    directory.withdraw();
    assert!(matches!(RunDirectory::open(&test.state, spec.run), Err(OpenRunError::Missing(_))));
    assert_eq!(names(), [".creating"]);
    assert_eq!(fs::read_dir(test.state.runs().join(".creating")).unwrap().count(), 0);
}

#[test]
fn a_new_run_has_its_spec_its_prompt_and_a_journal_that_says_created() {
    let test = TestState::new();
    let spec = RunSpec { name: Some("fixer".to_owned()), ..spec(RunId::generate()) };
    let directory =
        RunDirectory::create(&test.state, &spec, b"\n\n  fix the tests \nplease").unwrap();

    assert_eq!(directory.spec().unwrap(), spec);
    let mut prompt = Vec::new();
    directory.open_prompt().unwrap().read_to_end(&mut prompt).unwrap();
    assert_eq!(prompt, b"\n\n  fix the tests \nplease");
    let created = RunEvent::Created {
        session: spec.session.to_string(),
        workspace: spec.workspace.clone().into(),
        profile: spec.profile.clone(),
        agent: spec.agent.program.clone(),
        agent_version: spec.agent.version.clone(),
        model: spec.model.clone(),
        name: spec.name.clone(),
        prompt_length: 25,
        prompt_start: "fix the tests".to_owned(),
    };
    let expected = [Seen::Header(1), Seen::Run(first(1), spec.created_ms, created)];
    assert_eq!(read(&directory, Position::Start), expected);
    assert_eq!(RunDirectory::open(&test.state, spec.run).unwrap(), directory);
}

#[test]
fn nobody_else_can_read_a_run() {
    let test = TestState::new();
    let directory = test.create();
    for directory in [test.state.path(), &test.state.runs(), directory.path()] {
        assert_eq!(mode(directory), 0o700, "{}", directory.display());
    }
    for name in ["spec.json", "prompt", "run.lock", "events.jsonl"] {
        assert_eq!(mode(&directory.path().join(name)), 0o600, "{name}");
    }
}

#[test]
fn a_run_that_cannot_be_made_leaves_nothing_behind() {
    let test = TestState::new();
    let directory = test.create();
    let spec = spec(directory.run_id());
    let again = RunDirectory::create(&test.state, &spec, b"again");
    assert!(matches!(again, Err(CreateRunError::Exists(run)) if run == spec.run));
    assert_eq!(fs::read_dir(test.state.runs().join(".creating")).unwrap().count(), 0);
    assert_eq!(fs::read(directory.prompt_path()).unwrap(), b"fix the tests");
}

#[test]
fn an_old_incomplete_run_is_removed_and_a_recent_one_is_not() {
    let test = TestState::new();
    test.create();
    let workshop = test.state.runs().join(".creating");
    let old = workshop.join("0191d0f6-0000-7000-8000-0123456789ab");
    let recent = workshop.join(RunId::generate().to_string());
    for half in [&old, &recent] {
        fs::create_dir(half).unwrap();
        fs::write(half.join("spec.json"), "{").unwrap();
    }
    test.create();
    assert!(!old.exists());
    assert!(recent.exists());
}

#[test]
fn a_state_directory_that_everybody_can_write_to_is_refused() {
    let test = TestState::new();
    fs::create_dir(test.state.path()).unwrap();
    fs::set_permissions(test.state.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let refused = RunDirectory::create(&test.state, &spec(RunId::generate()), b"x");
    assert!(matches!(refused, Err(CreateRunError::NotOurs { .. })));
}

#[test]
fn a_state_directory_on_another_disk_may_be_reached_through_a_link() {
    let test = TestState::new();
    let elsewhere = tempfile::tempdir().unwrap();
    symlink(elsewhere.path(), test.state.path()).unwrap();
    let directory = test.create();
    assert!(directory.spec().is_ok());
}

#[test]
fn a_missing_or_linked_directory_is_not_a_run() {
    let test = TestState::new();
    let directory = test.create();
    let missing = RunId::generate();
    assert!(matches!(
        RunDirectory::open(&test.state, missing),
        Err(OpenRunError::Missing(run)) if run == missing
    ));
    let linked = RunId::generate();
    symlink(directory.path(), test.state.run_dir(&linked)).unwrap();
    assert!(matches!(RunDirectory::open(&test.state, linked), Err(OpenRunError::NotOurs { .. })));
}

#[test]
fn a_spec_with_an_unknown_field_is_refused_and_the_field_is_named() {
    let test = TestState::new();
    let directory = test.create();
    let text = fs::read_to_string(directory.spec_path()).unwrap();
    fs::write(directory.spec_path(), text.replacen('{', "{\"warp\":9,", 1)).unwrap();
    let err = directory.spec().unwrap_err();
    assert!(
        matches!(&err, ReadSpecError::Parse { source, .. } if source.to_string().contains("warp"))
    );
}

#[test]
fn a_second_supervisor_of_a_run_learns_who_holds_the_lock() {
    let test = TestState::new();
    let directory = test.create();
    assert_eq!(directory.writer().unwrap(), WriterPresence::NotYet);
    assert!(!directory.is_live());

    let lock = directory.lock().unwrap();
    let Err(LockRunError::Held { holder: Some(holder) }) = directory.lock() else {
        panic!("the lock was granted twice");
    };
    assert_eq!((holder.run, holder.pid), (directory.run_id(), std::process::id()));
    assert!(directory.is_live());
    assert_eq!(directory.writer().unwrap(), WriterPresence::Live(Some(holder.clone())));

    drop(lock);
    assert!(!directory.is_live());
    assert_eq!(directory.writer().unwrap(), WriterPresence::Gone(Some(holder)));
}

#[test]
fn the_lock_is_held_until_its_last_clone_is_dropped() {
    let test = TestState::new();
    let directory = test.create();
    let lock = directory.lock().unwrap();
    let clone = lock.clone();
    drop(lock);
    assert!(directory.is_live());
    drop(clone);
    assert!(!directory.is_live());
}

#[test]
fn a_supervisor_that_did_not_start_in_time_counts_as_gone() {
    let test = TestState::new();
    let directory = test.create_old();
    assert_eq!(directory.writer().unwrap(), WriterPresence::Gone(None));
}

#[test]
fn a_run_that_is_being_removed_has_no_writer() {
    let test = TestState::new();
    let directory = test.create();
    fs::remove_dir_all(directory.path()).unwrap();
    assert_eq!(directory.writer().unwrap(), WriterPresence::Gone(None));
}
