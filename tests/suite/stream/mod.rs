//! The lines that agents print, simulated and captured.

mod captures;
mod key_sets;
mod parse_command;
