use pretty_assertions::assert_eq;

use super::super::test_bench::{Bench, play_turn};
use super::super::{Closing, SessionFacts, SessionStore};
use super::*;
use crate::tools::Generation;

#[test]
fn sessions_with_a_root_are_listed_most_recently_created_first() {
    let mut bench = Bench::new(Generation::V2026_09);
    let bucket = bench.roots.chats_of(&bench.workspace);
    let mut create = |started_ms, is_played| {
        bench.session_id = Uuid::new_v4();
        let facts = SessionFacts { started_ms, ..bench.facts() };
        let mut store =
            SessionStore::open(&bucket, &bench.workspace, bench.session_id, facts).unwrap();
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
    // Only the creation time counts, not the last use.
    bench.session_id = first;
    play_turn(&mut bench.open(), 1);
    fs::create_dir(bucket.join("not a session")).unwrap();
    assert_eq!(recent_sessions(&bucket), [second, third, first]);
    assert_eq!(recent_sessions(&bench.roots.chats().join("elsewhere")), Vec::<Uuid>::new());
}
