//! The files that this crate writes, in format version 1, as version 0.1.0 of the program wrote them. They must stay
//! readable forever.

use format_fixtures::{Layout, check};

use crate::hooks::HookRecord;
use crate::queue::queue_file::QueueMemory;
use crate::server::instance::DaemonNote;

#[test]
fn the_queues_memory_is_read_in_full() {
    check::<QueueMemory>(&["v1/state/queue.json"], Layout::Pretty);
}

#[test]
fn hook_records_are_read_in_full() {
    check::<HookRecord>(&["v1/state/hooks/*/*.json"], Layout::Compact);
}

#[test]
fn a_daemon_s_note_is_read_in_full() {
    check::<DaemonNote>(&["v1/state/daemon.lock"], Layout::Compact);
}
