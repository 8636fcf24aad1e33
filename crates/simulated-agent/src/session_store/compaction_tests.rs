use cursor_stores::chat::schema::ConversationStateStructure;
use pretty_assertions::assert_eq;

use super::super::test_bench::{Bench, fields, play_turn};
use super::super::{Closing, Role};
use super::*;
use crate::tools::Generation;

#[test]
fn compaction_leaves_the_summary_in_the_prompt_and_the_rest_in_an_archive() {
    let bench = Bench::after_turns(2, Generation::V2026_09);
    let before = bench.dump().prompt_ids();
    let tokens_before = bench.open().context_tokens();
    let mut store = bench.open();
    store.compact("they said hello").unwrap();
    assert!(store.context_tokens() < tokens_before);
    play_turn(&mut store, 2);
    store.compact("they said hello again").unwrap();
    play_turn(&mut store, 3);
    // The transcript has the whole conversation, and no summary.
    let said: Vec<_> =
        store.transcript_messages().iter().filter_map(messages::remembered).collect();
    let prompts: Vec<_> = said.iter().filter(|message| message.role == Role::User).collect();
    assert_eq!(
        prompts.iter().map(|prompt| prompt.text.as_str()).collect::<Vec<_>>(),
        ["prompt 0", "prompt 1", "prompt 2", "prompt 3"]
    );
    store.close(Closing::Clean).unwrap();

    let dump = bench.dump();
    let prompt = dump.prompt();
    assert_eq!(prompt.len(), 2 + 5);
    assert_eq!(dump.prompt_ids()[0], before[0]);
    assert!(messages::is_summary(&prompt[1]));
    let root = ConversationStateStructure::decode(dump.blob(dump.latest_root())).unwrap();
    assert_eq!(root.self_summary_count, 2);
    assert_eq!(root.message_count_at_last_compaction, Some(7));
    assert_eq!(root.summary_archives.len(), 2);
    assert_eq!(root.summary_archive, root.summary_archives.last().cloned());
    let archive = fields(dump.blob(&hex::encode(&root.summary_archives[0])));
    let archived = archive.iter().filter(|(number, _)| *number == 1);
    assert_eq!(archived.map(|(_, id)| hex::encode(id.bytes())).collect::<Vec<_>>(), before[1..]);
    assert_eq!(root.turns.len(), 4);
    dump.walk();
    assert_eq!(bench.check().findings, []);
}
