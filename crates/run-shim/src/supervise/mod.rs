//! The process that supervises one run, in five phases over one [`Supervisor`]: how the run stands, its journal, its orders.
//!
//! ```text
//!   claim     directory, journal, sockets, locks, the session as it is now     ─► Claim
//!   prepare   the agent's files, the sandbox's plan, the limits                ─► InPlace     "ready" to the starter
//!   hold      bwrap, the gate, mounts verified, limits on, workspace saved     ─► Sandbox     the agent is let go
//!   drive     output, orders, limits, clock, one at a time                     ─► Driven      nothing of the agent lives
//!   close     what we lent is taken back, the session is judged                ─► `ended`, and the journal is closed
//! ```
//!
//! A run that stops in `claim` or `prepare` is refused and leaves nothing, unless its starter has heard that it waits. From
//! "ready" on everything is in the journal, and every run comes to `close`.

mod agent_line;
mod claim;
mod close;
mod drive;
mod failure_class;
mod hold;
pub(crate) mod outcome_words;
mod prepare;
mod presence;
mod prompt;
mod refusal;
pub(crate) mod run_state;
mod supervisor;
mod token_count;
pub(crate) mod workspace_watch;

use std::path::Path;
use std::process::ExitCode as ProcessExit;

use crate::control::start_shim::{PROXY_VARIABLE, SECRET_PREFIX, ShimReport, report};
use crate::limits::PreparedLimits;
use crate::record::shim_log;
use crate::sandbox::launch_guard::PostedGuard;
use claim::Claim;
use hold::hold;
use prepare::InPlace;
use refusal::{NotBegun, ShimError, ShimRefusal};
use supervisor::Supervisor;

/// Messages that wait in a channel to the supervisor; more than that come only from a flood, which then waits.
const QUEUE: usize = 64;

/// The whole life of a shim: `caretaker shim <run directory>`.
pub fn shim_main(run_dir: &Path) -> ProcessExit {
    // What we inherited is nobody's business inside the sandbox.
    close_fds::set_fds_cloexec(3, &[]);
    // A terminal that closes takes its session along, and we are not to be in it. Fails only where we lead one already.
    nix::unistd::setsid().ok();
    // Our starter may have blocked signals for itself, and a mask is inherited: a shutdown would go unheard.
    nix::sys::signal::SigSet::all().thread_unblock().ok();
    nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_CORE, 0, 0).ok();
    let environment = Environment::of_process();
    shim_log::start();

    let outcome = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(ShimError::Runtime)
        .and_then(|runtime| {
            let outcome = runtime.block_on(supervise_guarded(run_dir, &environment));
            // A thread may still wait for a lock that nobody needs any more.
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

/// What reaches a shim by its environment, which only its user can read.
struct Environment {
    /// For the agent.
    secrets: Vec<(String, String)>,
    /// The proxy that this machine needs: there may be a password in it. It was checked when the run was accepted.
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

async fn supervise_guarded(run_dir: &Path, environment: &Environment) -> Result<(), ShimError> {
    // Posted at once and in a thread of its own: the guard takes its place while we prepare.
    let mut guard = PostedGuard::post();
    let outcome = supervise(run_dir, environment, &mut guard).await;
    // A run that was not launched must not be ended by its own guard either.
    guard.dismiss().await;
    outcome
}

async fn supervise(
    run_dir: &Path,
    environment: &Environment,
    guard: &mut PostedGuard,
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
    let driven = match hold(&mut supervisor, &mut in_place, limits, guard).await {
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
