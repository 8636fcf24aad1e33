//! The protections of a sandboxed run: profile, network, login and secrets.

mod caches;
mod inside;
mod installs;
pub(crate) mod login;
pub(crate) mod network;
mod off;
mod registries;
mod root_caller;
mod secrets;
pub(crate) mod strict;
mod unavailable;
mod user_policy;
