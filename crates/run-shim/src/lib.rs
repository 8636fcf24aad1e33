//! Runs one agent: launches it, reads its output, decides, stops it, and records its end.
//!
//! ```text
//!   control      caretaker run ─► start_shim ─► the shim's own process: shim_main      orders arrive here, too
//!   supervise    claim ─► prepare ─► hold ─► drive ─► close                            the phases of a run
//!                stdout ─► agent-stream ─► record (the journal) ─► RunState::step ─► effects
//!
//!   preparation  the decisions and files before a sandbox starts
//!   sandbox      bwrap, gate, guard, keeper: the processes                limits, network: what confines them
//!   session      locks, bucket, memory, checkpoint                        login: the agent's copy
//!   agent_tools  the agent's MCP servers, the shim's own among them       record: journal, stderr, log, redaction
//! ```
//!
//! **Invariant:** only this crate starts or signals agents.
//!
//! **Invariant:** the shim never releases a sandbox that it has not verified, even if the shim itself dies.
//!
//! **Invariant:** `supervise::run_state` makes every decision about a run, in a pure step. All other code only carries
//! out these decisions.

mod agent_tools;
mod control;
mod limits;
mod login;
mod network;
mod preparation;
mod record;
mod sandbox;
mod session;
mod supervise;

pub use agent_tools::agent_desk::report_end;
pub use agent_tools::agent_servers::{
    RELAY_ENTRY, ServersNotChanged, ShownServers, Unreachable, UserMcpError, UserMcpReport,
    change_servers_of_session, choice_of, names_in, repository_server, repository_servers,
    servers_of_run, user_mcp,
};
pub use agent_tools::mcp_relay;
pub use control::orders::{Given, NotGiven, Order};
pub use control::sockets::{SocketPaths, private_dir};
pub use control::start_shim::{Shim, ShimEnvironment, StartShimError, Started};
pub use control::{control_client, http_exchange};
pub use limits::{LimitSurvey, LimitsNotHeld, machine_memory, survey_limits};
pub use login::{
    KeptLogin, LoginCopyError, LoginOrigin, RestoreError, Restored, kept_logins, restore_login,
};
pub use network::{UpstreamProxy, UpstreamProxyError};
pub use preparation::caches::{CacheError, StoredCache, stored_caches};
pub use preparation::error::PrepareError;
pub use preparation::{check_run, plan_run};
pub use sandbox::entry::{BIND_ENTRY, bind_main};
pub use sandbox::gate::gate_main;
pub use sandbox::keeper::keeper_main;
pub use sandbox_plan::PlanFds;
pub use session::checkpoint::pending_tools;
pub use session::locks::{WorkspaceBusy, WorkspaceHold, clean_up_after_the_dead, hold_workspace};
pub use session::minted_session::{mint_session, minted_session};
pub use session::session_memory::{look_at_session, outlive_last_agent};
pub use session::session_places::SessionPlaces;
pub use session::session_record::{
    SessionHolder, read_session_record, renew_session_record, session_holder,
};
pub use supervise::shim_main;
