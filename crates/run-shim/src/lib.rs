//! Makes one run happen: launch, read, decide, stop, end.
//!
//! ```text
//!   start        caretaker run ──► start_shim ──► a process of its own: shim_main
//!   shim         locks ─► preparation ─► starting (launch) ─► drive ─► checkpoint ─► ended
//!   drive        stdout ─► agent-stream ─► run_record (the journal) ─► RunState::step ─► effects
//! ```
//!
//! **Invariant:** only this crate starts or signals agents.
//!
//! **Invariant:** a sandbox that was not verified is never released, whatever happens to us.
//!
//! **Invariant:** what is decided is decided in [`run_state`], a pure step; everything else are its eyes and hands.

mod agent_desk;
mod agent_invocation;
mod agent_servers;
mod agents_directory;
mod checkpoint;
mod closing;
pub mod control_client;
mod control_socket;
mod descendants;
mod drive;
mod entry;
mod failure_class;
#[cfg(test)]
mod format_tests;
mod gate;
mod held_lock;
pub mod http_exchange;
mod keeper;
mod launch;
mod launch_guard;
mod lease_watch;
mod limits;
mod live_servers;
mod locks;
mod login;
pub mod mcp_relay;
mod mcp_server;
mod minted_session;
mod mount_watch;
mod network;
mod orders;
mod outcome_words;
mod preparation;
mod prepare_error;
mod private_roots;
mod prompt;
mod redaction;
mod run_record;
mod run_state;
mod session_bucket;
mod session_memory;
mod session_record;
mod shim;
mod shim_log;
mod shim_refusal;
mod sockets;
mod start;
mod starting;
mod stderr_keeper;
mod token_count;
mod unconfined;
mod workspace_watch;
mod write_lease;

pub use agent_desk::report_end;
pub use agent_servers::{
    RELAY_ENTRY, ServersNotChanged, ShownServers, Unreachable, UserMcpError, UserMcpReport,
    change_servers_of_session, choice_of, names_in, repository_server, repository_servers,
    servers_of_run, user_mcp,
};
pub use checkpoint::pending_tools;
pub use entry::enter_sandbox_main;
pub use gate::gate_main;
pub use keeper::keeper_main;
pub use launch_guard::launch_guard_main;
pub use limits::{LimitSurvey, LimitsNotHeld, survey_limits};
pub use locks::{WorkspaceBusy, WorkspaceHold, clean_up_after_the_dead, hold_workspace};
pub use login::{
    KeptLogin, LoginCopyError, LoginOrigin, RestoreError, Restored, kept_logins, restore_login,
};
pub use minted_session::{mint_session, minted_session};
pub use network::{UpstreamProxy, UpstreamProxyError};
pub use orders::{Given, NotGiven, Order};
pub use preparation::{check_run, plan_run};
pub use prepare_error::PrepareError;
pub use sandbox_plan::PlanFds;
pub use session_record::{
    SessionHolder, read_session_record, renew_session_record, session_holder,
};
pub use shim::shim_main;
pub use sockets::{SocketPaths, private_dir};
pub use start::{ShimEnvironment, StartShimError, Started, start_queued_shim, start_shim};
