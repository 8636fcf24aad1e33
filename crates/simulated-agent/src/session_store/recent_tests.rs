use std::path::Path;

use pretty_assertions::assert_eq;

use super::super::bench::{Bench, play_turn};
use super::super::{Closing, SessionFacts, SessionStore};
use super::*;
use crate::tools::Generation;

#[test]
fn the_most_recent_session_is_the_one_created_last_that_has_a_root() {
    let mut bench = Bench::new(Generation::V2026_09);
    let mut create = |started_ms, is_played| {
        bench.session_id = Uuid::new_v4();
        let facts = SessionFacts { started_ms, ..bench.facts() };
        let mut store =
            SessionStore::open(&bench.roots, &bench.workspace, bench.session_id, facts).unwrap();
        if is_played {
            play_turn(&mut store, 0);
        } else {
            store.begin_turn("never answered", "request").unwrap();
        }
        store.close(Closing::LeaveWal).unwrap();
        bench.session_id
    };
    let first = create(1_000, true);
    let second = create(3_000, true);
    let third = create(2_000, true);
    create(4_000, false);
    // Use does not count, only creation.
    bench.session_id = first;
    play_turn(&mut bench.open(), 1);
    fs::create_dir(bench.roots.chats_of(&bench.workspace).join("not a session")).unwrap();
    let ids: Vec<_> =
        recent_sessions(&bench.roots, &bench.workspace).iter().map(|session| session.id).collect();
    assert_eq!(ids, [second, third, first]);
    assert_eq!(most_recent(&bench.roots, &bench.workspace), Some(second));
    let elsewhere = WorkspacePath::new(Path::new("/elsewhere")).unwrap();
    assert_eq!(most_recent(&bench.roots, &elsewhere), None);
}
