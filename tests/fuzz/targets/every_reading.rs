//! Every operation on a home's conversations, with any content in its stores.

use std::ops::ControlFlow;
use std::path::Path;

use cursor_stores::search::{Case, Matcher, Pattern};
use cursor_stores::{Branches, Catalogue, Encoding, Extent, StorePlaces};

/// Lists, reads, completes, searches, counts, and splits into pieces for an index. Nothing may panic, and a
/// conversation must survive being written and read back.
pub fn read_everything(home: &Path) {
    let places = StorePlaces {
        chats: vec![home.join("chats")],
        acp_sessions: vec![home.join("acp-sessions")],
        projects: vec![home.join("projects")],
        cursor_user_dirs: vec![home.join("User")],
        sdk_stores: vec![home.join("lines")],
        exports: vec![home.join("exports")],
        others: Vec::new(),
    };
    let catalogue = Catalogue::open(&places, &[]);
    let mut heads = catalogue.list().heads;
    catalogue.complete(&mut heads);
    for head in &heads {
        for extent in [
            Extent { last: Some(2), branches: Branches::Current },
            Extent { last: None, branches: Branches::WithOrphans },
        ] {
            if let Ok(conversation) = catalogue.read(head, extent) {
                let json = serde_json::to_string(&conversation).expect("every conversation can be written");
                // Conversations may nest deeper than the parser allows by default.
                let mut read = serde_json::Deserializer::from_str(&json);
                read.disable_recursion_limit();
                let again = <cursor_stores::model::Conversation as serde::Deserialize>::deserialize(&mut read)
                    .expect("a written conversation can be read");
                let again = serde_json::to_string(&again).expect("every conversation can be written");
                assert!(again == json, "a conversation changed when it was written and read back");
            }
        }
        for origin in &head.origins {
            if let Some(store) = catalogue.store_of(origin) {
                store.stamp(origin.key(head));
                store.watched(Some(origin.key(head)));
                store
                    .visit_raw(origin.key(head), Branches::WithOrphans, &mut |record| {
                        serde_json::to_string(&record).expect("every record can be written");
                        ControlFlow::Continue(())
                    })
                    .ok();
            }
        }
    }
    for pattern in [Pattern::Words("planted 1"), Pattern::Regex("p.an(t|d)ed.*x")] {
        let matcher = Matcher::new(pattern, Case::Smart).expect("a pattern");
        catalogue.search(&matcher, &|_| ControlFlow::Continue(()));
    }
    for store in catalogue.stores() {
        store.account();
        let Some(indexable) = store.indexable() else { continue };
        for section in indexable.sections().unwrap_or_default() {
            let mut visit = |_: &[u8], _: Encoding| {};
            indexable.visit_section(&section.name, &mut visit).ok();
        }
    }
}
