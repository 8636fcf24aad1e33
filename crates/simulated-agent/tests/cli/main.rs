//! The simulated agent as others see it: a process with arguments, pipes, signals and files.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod failures;
mod memory;
mod misbehaviour;
mod process;
mod sandbox;
mod stream;
mod subcommands;
