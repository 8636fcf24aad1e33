//! Version 1 files, as Caretaker 0.1.0 wrote them. Every later version must read them.

use format_fixtures::{Layout, check};

use crate::session::held_lock::Holder;

#[test]
fn session_leases_and_workspace_locks_are_read_in_full() {
    let patterns = ["v1/state/sessions/*/lease.lock", "v1/state/workspaces/*.lock"];
    check::<Holder>(&patterns, Layout::Compact);
}
