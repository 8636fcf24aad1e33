//! A hostile agent's attempts, each in one row: what it does, which answer means that it failed, and where the
//! host shows that it had no effect.
//!
//! ```text
//!   suite ──► caretaker ──► bubblewrap ──► simulated agent ──► sandbox-probe: makes the attempts, prints an answer for each
//!     ▲                                                             │
//!     └── judges the answers and checks the host ◄──────────────────┘
//!   suite ──► bubblewrap without one protection, in a temporary namespace ──► sandbox-probe: the attempt must escape
//! ```
//!
//! **Invariant:** an attempt that succeeds does no harm: it writes what was already there, or something that ends with the test.
//!
//! **Invariant:** from the machine's own network, no attempt sends anything to an address beyond loopback; see
//! [`World::is_apart`].

mod attempt;
mod caches;
mod calls;
mod configuration;
mod files;
mod machine;
mod network;
mod processes;
mod run_socket;
mod smuggling;
mod space;
mod system_calls;
mod tries;
mod world;

pub use attempt::{Answer, Attempt, Evidence, Line, OTHER_SESSION};
pub use calls::{make_shared_memory, remove_shared_memory};
pub use network::smuggle;
pub use smuggling::{SMUGGLED, Smuggled};
pub use world::{LEAKED_DESCRIPTOR, NEIGHBOUR, Neighbour, World, network_namespace};

/// Every attempt that the probe makes in an ordinary run.
pub fn attempts() -> Vec<&'static Attempt> {
    let groups = [
        files::ATTEMPTS,
        caches::ATTEMPTS,
        configuration::ATTEMPTS,
        processes::ATTEMPTS,
        machine::ATTEMPTS,
        system_calls::ATTEMPTS,
        network::ATTEMPTS,
        run_socket::ATTEMPTS,
        space::ATTEMPTS,
    ];
    groups.into_iter().flatten().collect()
}

/// Attempts on the network that need a simulated outside world.
pub fn attempts_on_the_way_out() -> Vec<&'static Attempt> {
    network::ON_THE_WAY_OUT.iter().collect()
}
