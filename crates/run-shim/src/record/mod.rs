//! The shim's records: the journal, the agent's stderr and the shim's own log, all without secrets.

pub(crate) mod redaction;
pub(crate) mod run_record;
pub(crate) mod shim_log;
pub(crate) mod stderr_keeper;
