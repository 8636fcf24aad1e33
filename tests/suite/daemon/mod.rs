//! The daemon: its life, its sockets, its queue and its hooks.

mod door;
mod hooks;
pub(crate) mod life;
mod places;
mod queue;
