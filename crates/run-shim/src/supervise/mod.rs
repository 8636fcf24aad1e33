//! The shim's main loop: it supervises one run, in five phases over one [`Supervisor`].
//!
//! ```text
//!   claim     directory, journal, sockets, locks, the state of the session     ─► Claim
//!   prepare   the agent's files, the sandbox's plan, the limits                ─► InPlace     "ready" to the starter
//!   hold      bwrap, the gate, mounts verified, limits on, workspace saved     ─► Sandbox     the agent is released
//!   drive     output, orders, limits, clock, one at a time                     ─► Driven      the agent is dead
//!   close     clean up the run's files, judge the session                      ─► `ended`, and the journal is closed
//! ```
//!
//! A run that fails in `claim` or `prepare` is refused and leaves nothing behind, unless its starter already knows that
//! it is waiting. After "ready", the journal records everything, and every run reaches `close`.

mod agent_line;
mod agent_output;
mod claim;
mod close;
mod drive;
mod failure_class;
mod finished_call;
mod hold;
pub(crate) mod outcome_words;
mod prepare;
mod presence;
mod prompt;
mod record_limits;
mod refusal;
pub(crate) mod run_state;
mod supervisor;
mod token_count;
pub(crate) mod workspace_watch;

use std::path::Path;
use std::process::ExitCode as ProcessExit;

use crate::control::start_shim::{PROXY_VARIABLE, SECRET_PREFIX, ShimReport, report, wait_for_run};
use crate::limits::PreparedLimits;
use crate::record::shim_log;
use crate::sandbox::StandBy;
use claim::Claim;
use hold::hold;
use prepare::InPlace;
use refusal::{NotBegun, ShimError, ShimRefusal};
use supervisor::Supervisor;

/// The capacity of a channel to the supervisor. Only a flood needs more, and then the senders wait.
const QUEUE: usize = 64;

/// The shim's main function: `caretaker shim <run directory>`.
pub fn shim_main(run_dir: &Path) -> ProcessExit {
    // The sandbox must not inherit the descriptors of the process that started the shim.
    close_fds::set_fds_cloexec(3, &[]);
    // A closing terminal ends its session, so the shim leaves it. This fails only if the shim already leads a session.
    nix::unistd::setsid().ok();
    // The starter may have blocked signals, and the shim inherits the mask. It would then miss a shutdown.
    nix::sys::signal::SigSet::all().thread_unblock().ok();
    nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_CORE, 0, 0).ok();
    // This must come before any code that could start a thread.
    let stand_by = StandBy::post();
    let environment = Environment::of_process();
    shim_log::start();
    // The shim has started ahead of its run.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    if !wait_for_run() {
        return ProcessExit::SUCCESS;
    }

    let outcome = runtime.map_err(ShimError::Runtime).and_then(|runtime| {
        let outcome = runtime.block_on(supervise_guarded(run_dir, &environment, stand_by));
        // A thread may still be waiting for a lock that the shim no longer needs.
        runtime.shutdown_background();
        outcome
    });
    match outcome {
        Ok(()) => ProcessExit::SUCCESS,
        Err(error) => {
            let refusal = error.refusal();
            tracing::error!(error = refusal.message, "the run was refused");
            let ShimRefusal { exit_code, message, hint } = refusal;
            report(&ShimReport::refused(exit_code, message, hint)).ok();
            exit_code.into()
        }
    }
}

/// The shim's own environment. Only its user can read it.
struct Environment {
    /// The agent's secrets.
    secrets: Vec<(String, String)>,
    /// The machine's own proxy, which may contain a password. Admission has checked it.
    proxy: Option<String>,
}

impl Environment {
    fn of_process() -> Self {
        let secret = |(name, value): (String, String)| {
            Some((name.strip_prefix(SECRET_PREFIX)?.to_owned(), value))
        };
        Self {
            secrets: std::env::vars().filter_map(secret).collect(),
            proxy: std::env::vars()
                .find(|(name, _)| name == PROXY_VARIABLE)
                .map(|(_, proxy)| proxy),
        }
    }
}

async fn supervise_guarded(
    run_dir: &Path,
    environment: &Environment,
    mut stand_by: StandBy,
) -> Result<(), ShimError> {
    let outcome = supervise(run_dir, environment, &mut stand_by).await;
    // The guard must not end a run that was never launched.
    stand_by.guard.dismiss();
    outcome
}

async fn supervise(
    run_dir: &Path,
    environment: &Environment,
    stand_by: &mut StandBy,
) -> Result<(), ShimError> {
    tracing::debug!("begins");
    let (mut supervisor, mut claim) = claim::open(run_dir, environment)?;
    let begun = begin(&mut supervisor, &mut claim, environment).await;
    let (mut in_place, limits) = match begun {
        Ok(begun) => begun,
        Err(NotBegun::Refused(error)) => return Err(error),
        Err(NotBegun::Ended { outcome, why }) => {
            close::end_unrun(supervisor, &claim.spec, outcome, why);
            return Ok(());
        }
    };
    let has_setup = claim.spec.setup.is_some();
    let driven = match hold(&mut supervisor, &mut in_place, limits, stand_by, has_setup).await {
        Ok(sandbox) => drive::drive(&mut supervisor, sandbox, &claim, &mut in_place).await,
        Err(not_launched) => not_launched.as_driven(claim.run.path()),
    };
    close::close(supervisor, &claim, in_place, driven).await;
    Ok(())
}

/// The phases that may still refuse the run.
async fn begin(
    supervisor: &mut Supervisor,
    claim: &mut Claim,
    environment: &Environment,
) -> Result<(InPlace, PreparedLimits), NotBegun> {
    claim.take(supervisor).await?;
    prepare::prepare(supervisor, claim, environment).await
}
