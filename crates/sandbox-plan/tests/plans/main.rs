//! Plans: their arguments, their refusals, and what a program can see, change and do inside the real bubblewrap.
//!
//! If bubblewrap cannot make namespaces, the tests say so and pass, unless `REQUIRE_SANDBOX=1`.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed, and one that had nothing to test says so"
)]

mod arguments;
mod caches;
mod configuration;
mod home;
mod launch;
mod privileges;
mod probe;
mod refusals;
mod release;
mod repositories_within;
mod repository;
mod scene;
