//! All that can be done with the conversations of a home, whatever is in its stores.

use std::ops::ControlFlow;
use std::path::Path;

use cursor_stores::search::{Case, Matcher, Pattern};
use cursor_stores::{Branches, Catalogue, Extent, StorePlaces};

/// Lists, reads, completes, searches and counts. Nothing of it may panic, and what is read must survive being written.
pub fn read_everything(home: &Path) {
    let places = StorePlaces {
        chats: vec![home.join("chats")],
        acp_sessions: vec![home.join("acp-sessions")],
        projects: vec![home.join("projects")],
        cursor_user_dirs: vec![home.join("User")],
        ..StorePlaces::default()
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
                serde_json::from_str::<cursor_stores::model::Conversation>(&json).expect("and read again");
            }
        }
    }
    let matcher = Matcher::new(Pattern::Words("a"), Case::Smart).expect("a letter is a pattern");
    catalogue.search(&matcher, &|_| ControlFlow::Continue(()));
    for store in catalogue.stores() {
        store.account();
    }
}
