use std::fs;

use pretty_assertions::assert_eq;
use store_fixtures::chat::Generation;

use super::*;
use crate::session_copy::test_sessions::*;
use crate::test_store::picture_of;

struct Patient {
    chats: Chats,
    directory: PathBuf,
    backup: PathBuf,
}

impl Patient {
    fn new(generation: Generation) -> Self {
        let chats = Chats::new();
        let directory = chats.write(&rich_chat(generation));
        let backup = chats.path().with_file_name("backups").join("one");
        Self { chats, directory, backup }
    }

    fn repair(&self, plan: &RepairPlan) -> Result<Repaired, CopyError> {
        repair(&self.directory, &self.chats.path(), plan, &self.backup, 1_795_000_000_000)
    }
}

#[test]
fn a_lost_root_is_found_again_and_the_original_is_kept() {
    for generation in GENERATIONS {
        let patient = Patient::new(generation);
        let whole = patient.chats.read(ID);
        forget_root(&patient.directory);
        let ill = fs::read(patient.directory.join("store.db")).unwrap();
        let plan = plan_repair(&patient.directory).unwrap();
        assert!(matches!(plan.actions[..], [RepairAction::SetRoot { from: None, .. }]), "{plan:?}");
        let repaired = patient.repair(&plan).unwrap();
        assert!(repaired.verdict.is_sound(), "{:?}", repaired.verdict.findings);
        assert_same_talk(&patient.chats.read(ID), &whole);
        assert_eq!(fs::read(patient.backup.join("store.db")).unwrap(), ill);
        assert_eq!(meta_of(&patient.directory).agent_id(), Some(ID));
        assert!(plan_repair(&patient.directory).unwrap().actions.is_empty());
    }
}

#[test]
fn planning_changes_nothing_and_an_old_plan_is_not_followed() {
    let patient = Patient::new(Generation::Sep2026);
    forget_root(&patient.directory);
    let before = picture_of(&patient.directory);
    let plan = plan_repair(&patient.directory).unwrap();
    assert_eq!(picture_of(&patient.directory), before);

    let RepairAction::SetRoot { to, .. } = &plan.actions[0] else { panic!("{plan:?}") };
    damage(&patient.directory, &format!("DELETE FROM blobs WHERE id = '{}'", to.id));
    let before = picture_of(&patient.directory);
    assert!(matches!(patient.repair(&plan), Err(CopyError::PlanIsOld)));
    assert_eq!(picture_of(&patient.directory), before);
    assert!(!patient.backup.exists());
}

#[test]
fn a_session_in_use_is_not_repaired() {
    let patient = Patient::new(Generation::Sep2026);
    forget_root(&patient.directory);
    let plan = plan_repair(&patient.directory).unwrap();
    let before = picture_of(&patient.directory);
    let writer = OtherWriter::of(&patient.directory.join("store.db"));
    let err = patient.repair(&plan).unwrap_err();
    assert!(matches!(err, CopyError::InUse), "{err:?}");
    assert_eq!(picture_of(&patient.directory), before);
    drop(writer);
    patient.repair(&plan).unwrap();
}

#[test]
fn a_missing_meta_row_is_written_again() {
    let patient = Patient::new(Generation::Sep2026);
    let whole = patient.chats.read(ID);
    damage(&patient.directory, "UPDATE meta SET value = 'no hex'");
    let plan = plan_repair(&patient.directory).unwrap();
    assert!(
        matches!(plan.actions[..], [RepairAction::RewriteMeta, RepairAction::SetRoot { .. }]),
        "{plan:?}"
    );
    patient.repair(&plan).unwrap();
    assert_eq!(patient.chats.read(ID).messages, whole.messages);
}

#[test]
fn everything_readable_in_a_damaged_file_is_saved() {
    let patient = Patient::new(Generation::Sep2026);
    // For SQLite, a row without its index entry makes the file malformed, but nothing is lost.
    let path = patient.directory.join("store.db");
    let whole = patient.chats.read(ID);
    damage(
        &patient.directory,
        "PRAGMA writable_schema = ON;
         UPDATE sqlite_schema SET rootpage = (SELECT max(rootpage) FROM sqlite_schema) WHERE name = 'sqlite_autoindex_blobs_1';",
    );
    let plan = plan_repair(&patient.directory).unwrap();
    assert!(
        plan.actions.iter().any(|action| matches!(action, RepairAction::RebuildFile { .. })),
        "{plan:?}"
    );
    let repaired = patient.repair(&plan).unwrap();
    assert!(repaired.verdict.is_sound(), "{:?}", repaired.verdict.findings);
    assert_same_talk(&patient.chats.read(ID), &whole);
    assert!(path.exists());
}

#[test]
fn a_sound_session_needs_nothing_and_a_hopeless_one_is_left_alone() {
    let patient = Patient::new(Generation::Sep2026);
    let plan = plan_repair(&patient.directory).unwrap();
    assert_eq!(plan, RepairPlan { actions: vec![], beyond_repair: vec![] });
    assert!(matches!(patient.repair(&plan), Err(CopyError::NothingToDo)));

    damage(&patient.directory, "DELETE FROM blobs WHERE data LIKE '{%'");
    let plan = plan_repair(&patient.directory).unwrap();
    assert_eq!(plan.actions, []);
    assert!(!plan.beyond_repair.is_empty());
}

#[test]
fn files_beside_the_store_stay_and_an_unknown_entry_stops_the_repair() {
    let patient = Patient::new(Generation::Sep2026);
    forget_root(&patient.directory);
    fs::write(patient.directory.join("prompt_history.json"), "[]").unwrap();
    let plan = plan_repair(&patient.directory).unwrap();
    fs::create_dir(patient.directory.join("nested")).unwrap();
    let err = patient.repair(&plan).unwrap_err();
    assert!(matches!(err, CopyError::Unexpected { .. }), "{err:?}");
    fs::remove_dir(patient.directory.join("nested")).unwrap();
    patient.repair(&plan).unwrap();
    assert_eq!(fs::read(patient.directory.join("prompt_history.json")).unwrap(), b"[]");
    assert!(patient.directory.join("meta.json").exists());
    let names = patient.chats.names();
    assert!(names.iter().all(|path| !path.to_string_lossy().contains(".caretaker")), "{names:?}");
}
