//! Starting the agent: the program, its arguments and its environment.

pub(crate) mod agent_binary;
pub(crate) mod command_line;
pub(crate) mod environment;
pub(crate) mod extra_flags;
