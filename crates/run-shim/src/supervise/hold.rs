//! Phase three: the shim starts the sandbox, holds it at the gate, verifies it, applies its limits, and releases the
//! agent.
//!
//! ```text
//!   orders, wall clock ─┐
//!   start ─► verify ─► confine ─► workspace saved ─► release
//!   └─ the journal immediately records why the run ends here, and the run ends after the current step ──┘
//! ```
//!
//! The shim does not interrupt a step, because it could not tell a half-made sandbox from a complete one. Each step has
//! its own deadline.
//!
//! **Invariant:** if an order ends the run before the release, the agent never runs.

use std::future::Future;
use std::path::Path;

use ground::with_causes;
use run_protocol::{NetworkMode, RunEvent, RunOutcome, SignalName};

use crate::limits::PreparedLimits;
use crate::preparation::Prepared;
use crate::sandbox::entry::{EntryError, EntryHelper, Made};
use crate::sandbox::{HeldSandbox, LaunchError, Launchable, Sandbox, StandBy, was_killed_on_order};
use crate::supervise::drive::Driven;
use crate::supervise::prepare::InPlace;
use crate::supervise::run_state::{Ending, Input};
use crate::supervise::supervisor::Supervisor;

/// The helper that enters the sandbox's namespaces, or why it could not be started.
type PostedEntryHelper = Result<EntryHelper, EntryError>;

/// Why the shim did not release the agent.
pub(crate) enum NotLaunched {
    /// An order, a time limit, or a failed journal write ended the run.
    Ended(Ending),
    Failed(LaunchError),
}

impl From<LaunchError> for NotLaunched {
    fn from(error: LaunchError) -> Self {
        Self::Failed(error)
    }
}

impl From<Ending> for NotLaunched {
    fn from(ending: Ending) -> Self {
        Self::Ended(ending)
    }
}

impl NotLaunched {
    /// The result of a run whose agent was never released.
    pub(crate) fn as_driven(&self, run_dir: &Path) -> Driven {
        match self {
            Self::Ended(ending) => Driven::unrun(ending.clone(), String::new()),
            Self::Failed(error) => {
                let outcome = match was_killed_on_order(run_dir) {
                    true => RunOutcome::Cancelled,
                    false => RunOutcome::SandboxFailed,
                };
                Driven::unrun(Ending::Decided(outcome), with_causes(error))
            }
        }
    }
}

/// Sets up the run's sandbox and releases its agent.
pub(crate) async fn hold(
    supervisor: &mut Supervisor,
    in_place: &mut InPlace,
    limits: PreparedLimits,
    stand_by: &mut StandBy,
    has_setup: bool,
) -> Result<Sandbox, NotLaunched> {
    stand_by.guard.check().map_err(LaunchError::Guard)?;
    let held = bring_up(supervisor, in_place, limits, stand_by.helper.take()).await;
    // By now the sandbox is bound to the shim's lifetime, or gone.
    stand_by.guard.dismiss();
    let sandbox = held?.release().await?;
    // While a worktree is set up, the agent's time limits do not apply yet.
    if !has_setup {
        supervisor.step(Input::Released, None);
    }
    Ok(sandbox)
}

/// Sets up a sandbox, up to the point where only the release remains.
async fn bring_up(
    supervisor: &mut Supervisor,
    in_place: &mut InPlace,
    limits: PreparedLimits,
    helper: Option<PostedEntryHelper>,
) -> Result<HeldSandbox, NotLaunched> {
    let InPlace { prepared, workspace, session, .. } = in_place;
    supervisor.catch_up();
    supervisor.go_on()?;
    let helper = match &prepared.launchable {
        Launchable::Sandbox { .. } => helper,
        Launchable::Unconfined(_) => {
            helper.into_iter().flatten().for_each(EntryHelper::dismiss);
            None
        }
    };
    let starting = HeldSandbox::start(&prepared.launchable, limits.entrance());
    // bubblewrap needs the most time, so its process starts first. These two run alongside it.
    let beside = async {
        session.begin();
        workspace.begin();
    };
    let (held, ()) = supervisor.attend(async { tokio::join!(biased; starting, beside) }).await;
    let mut held = held?;
    tracing::debug!("bubblewrap has a child");
    if let Err(error) = held.write_down(prepared.run_dir()) {
        held.end().await;
        return Err(error.into());
    }
    // The sync runs while bwrap sets up the sandbox. If this fails, the first batch fails too and ends the run.
    supervisor.record.begin_sync().ok();
    let confining = verify_and_confine(prepared, &mut held, limits, helper);
    let mounts = supervisor.attend(confining).await;
    // The agent starts only after the workspace is saved. A run that must end does not wait for that.
    if let Ok(Some(saved)) = supervisor.attend_or_end(workspace.saved()).await {
        supervisor.record.event(&saved);
    }
    supervisor.attend_or_end(prepared.caches_linked()).await.ok();
    supervisor.attend(session.written()).await;
    match decide_on_release(supervisor, prepared, &mut held, mounts) {
        Ok(()) => Ok(held),
        Err(why) => {
            held.end().await;
            supervisor.note_signal(SignalName::Kill, "the sandbox");
            Err(why)
        }
    }
}

/// Compares the sandbox with the plan, and applies its limits. Returns the number of compared mounts.
async fn verify_and_confine(
    prepared: &Prepared,
    held: &mut HeldSandbox,
    limits: PreparedLimits,
    helper: Option<PostedEntryHelper>,
) -> Result<u32, LaunchError> {
    // These three examine the sandbox at the same time. None of them waits for another.
    let entering = enter(helper, held, prepared.network_mode() == NetworkMode::Allowlist);
    let moving = held.begin_to_confine(limits);
    let (mounts, made, limits) = tokio::join!(
        timed("the mounts are verified", held.verify(&prepared.launchable)),
        timed("the namespaces are entered", entering),
        timed("the limits are applied", moving),
    );
    let mounts = mounts?;
    let Made { segments, doors } = made?;
    held.keep_doors(doors);
    held.confine(limits?, &prepared.launchable, prepared.home(), segments).await?;
    Ok(mounts)
}

/// Logs the end of a part of the work.
async fn timed<T>(what: &str, work: impl Future<Output = T>) -> T {
    let done = work.await;
    tracing::debug!("{what}");
    done
}

/// Records the agent's release, if it is allowed. Without the record there is no release.
fn decide_on_release(
    supervisor: &mut Supervisor,
    prepared: &Prepared,
    held: &mut HeldSandbox,
    mounts: Result<u32, LaunchError>,
) -> Result<(), NotLaunched> {
    supervisor.catch_up();
    supervisor.go_on()?;
    let mounts = mounts?;
    let (sandbox_pid, confined) = (held.pid(), held.check_held()?);
    tracing::debug!("the agent is at the gate, the mounts are verified, the limits are in force");
    let profile = prepared.profile.clone();
    let mut warnings = prepared.warnings();
    warnings.extend(confined.warnings.iter().cloned());
    supervisor.record.event(&RunEvent::SandboxReady {
        profile,
        sandbox_pid,
        mounts,
        limits: Some(confined.in_force.clone()),
        network: Some(prepared.network_mode()),
        caches: prepared.caches().to_vec(),
        warnings,
    });
    supervisor.record.event(&RunEvent::Released);
    supervisor.flush(None);
    Ok(supervisor.go_on()?)
}

/// Lets the helper work inside the sandbox's namespaces. It enters the network only if the agent reaches its hosts
/// through the shim.
fn enter(
    helper: Option<PostedEntryHelper>,
    held: &HeldSandbox,
    goes_by_us: bool,
) -> impl Future<Output = Result<Made, EntryError>> + use<> {
    let work = helper.map(|helper| (helper, held.namespaces(goes_by_us)));
    async move {
        let Some((helper, namespaces)) = work else { return Ok(Made::default()) };
        let entering = async { helper?.enter(namespaces?).await };
        match entering.await {
            // A run needs its network. Without the rest, the shim only watches it less closely.
            Err(error) if !goes_by_us => {
                tracing::warn!(%error, "the sandbox could not be entered");
                Ok(Made::default())
            }
            made => made,
        }
    }
}
