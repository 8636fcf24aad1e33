//! What the shim writes down: the journal, the agent's stderr, its own log, and none of it with secrets.

pub(crate) mod redaction;
pub(crate) mod run_record;
pub(crate) mod shim_log;
pub(crate) mod stderr_keeper;
