//! What can be asked of a run, as the user types it.

pub mod limit_options;
pub mod name_claim;
pub mod named_secret;
pub mod queue_options;
pub mod reserved_variables;
pub mod run_marks;
pub mod run_options;
