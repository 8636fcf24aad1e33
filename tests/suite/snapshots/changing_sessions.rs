//! `sessions` commands that add or repair something: `new`, `fork`, `bundle`, `import`, `repair`, `gc --yes`, and
//! `tail`.

use super::reading_sessions::{shown_of, shows_how_a_session_is_refused};
use super::stores::{self, CUT_OFF, IDE, PARSER};
use crate::stage::Stage;

#[test]
fn new_prints_an_id() {
    let stage = Stage::of_fixed_width();
    let shown = shown_of(&stage);
    shown.command("sessions-new/good", &["sessions", "new"]);
    shown.once("sessions-new/unknown-flag", &["sessions", "new", "--colour"]);
}

#[test]
fn fork_copies_a_session() {
    let stage = stores::stage();
    let shown = shown_of(&stage);
    shown.command("sessions-fork/whole", &["sessions", "fork", PARSER]);
    shown.once("sessions-fork/at-a-turn", &["sessions", "fork", PARSER, "--at", "2"]);
    shown.once("sessions-fork/no-such-turn", &["sessions", "fork", PARSER, "--at", "9"]);
    shown.once("sessions-fork/ide-into", &["sessions", "fork", IDE, "--workspace", "."]);
    shown.once("sessions-fork/of-the-ide", &["sessions", "fork", IDE]);
    shows_how_a_session_is_refused(&shown, "fork");
}

#[test]
fn bundle_writes_a_file_and_import_reads_it() {
    let stage = stores::stage();
    let shown = shown_of(&stage);
    shown.once("sessions-bundle/good", &["sessions", "bundle", PARSER, "-o", "parser.bundle"]);
    shown.once("sessions-bundle/is-there", &["sessions", "bundle", PARSER, "-o", "parser.bundle"]);
    shown.once("sessions-bundle/of-the-ide", &["sessions", "bundle", IDE, "-o", "ide.bundle"]);
    for (name, session) in [("unknown", "99999999"), ("ambiguous", "5e55")] {
        let name = format!("sessions-bundle/{name}-session");
        shown.once(&name, &["sessions", "bundle", session, "-o", "none.bundle"]);
    }
    shown.once("sessions-bundle/no-output", &["sessions", "bundle", PARSER]);
    shown.once("sessions-import/is-there", &["sessions", "import", "parser.bundle"]);
    std::fs::remove_dir_all(stage.home().join(".cursor/chats")).unwrap();
    shown.once("sessions-import/good", &["sessions", "import", "parser.bundle"]);
    shown.once("sessions-import/no-file", &["sessions", "import", "missing.bundle"]);
    std::fs::write(stage.workspace().join("notes.bundle"), "no bundle\n").unwrap();
    shown.once("sessions-import/no-bundle", &["sessions", "import", "notes.bundle"]);
    shown.once("sessions-import/no-argument", &["sessions", "import"]);
}

#[test]
fn repair_mends_what_is_damaged() {
    let stage = stores::stage();
    let shown = shown_of(&stage);
    shown.once("sessions-repair/sound", &["sessions", "repair", PARSER]);
    let store = stage.session_dir(PARSER).join("store.db");
    let database = store_fixtures::open_writer(&store);
    database.execute("UPDATE meta SET value = 'nonsense'", []).unwrap();
    database.close().unwrap();
    shown.command("sessions-verify/damaged", &["sessions", "verify", PARSER]);
    shown.command("sessions-repair/damaged", &["sessions", "repair", PARSER]);
    shown.once("sessions-repair/mended", &["sessions", "repair", PARSER, "--yes"]);
    shows_how_a_session_is_refused(&shown, "repair");
}

#[test]
fn gc_drops_unreachable_blobs() {
    let stage = stores::stage();
    let shown = shown_of(&stage);
    shown.once("sessions-gc/done", &["sessions", "gc", PARSER, "--yes"]);
    shown.once("sessions-gc/nothing-left", &["sessions", "gc", PARSER]);
}

#[test]
fn tail_prints_existing_messages() {
    let stage = stores::stage();
    let shown = shown_of(&stage);
    shown.command("sessions-tail/cut-off", &["sessions", "tail", CUT_OFF]);
    shows_how_a_session_is_refused(&shown, "tail");
}
