//! What a hostile agent tries, each attempt in one row: what it does, what it must come to, and where the host shows that
//! it came to nothing.
//!
//! ```text
//!   suite ──► caretaker ──► bubblewrap ──► simulated agent ──► sandbox-probe: does the rows, prints an answer for each
//!     ▲                                                             │
//!     └── judges answers and looks at the host ◄────────────────────┘
//!   suite ──► bubblewrap with one protection less, in a namespace to throw away ──► sandbox-probe: the row must escape
//! ```
//!
//! **Invariant:** an attempt that succeeds harms nobody: it writes what was there, or what ends with the test.
//!
//! **Invariant:** nothing is sent to an address beyond loopback from the machine's own network; see [`World::is_apart`].

mod attempt;
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

/// Attempts on the way out, which need a world outside that is not the machine's.
pub fn attempts_on_the_way_out() -> Vec<&'static Attempt> {
    network::ON_THE_WAY_OUT.iter().collect()
}
