//! Phase three: the sandbox is started, held at our gate, verified, put under its limits; then the agent is let go.
//!
//! ```text
//!   orders, wall clock ─┐
//!   start ─► verify ─► confine ─► workspace saved ─► release
//!   └─ what ends the run here is written down at once, and carried out when the step under way is done ─┘
//! ```
//!
//! No step is broken off: half a sandbox could not be told from a whole one. Each has a limit of its own.
//!
//! **Invariant:** a run that was told to end before the release never runs its agent.

use std::future::Future;
use std::io;
use std::path::Path;

use ground::with_causes;
use run_protocol::{NetworkMode, RunEvent, RunOutcome, SignalName};

use crate::limits::PreparedLimits;
use crate::preparation::Prepared;
use crate::sandbox::entry::{EntryError, EntryHelper, Made};
use crate::sandbox::launch_guard::PostedGuard;
use crate::sandbox::{HeldSandbox, LaunchError, Launchable, Sandbox, was_killed_on_order};
use crate::supervise::drive::Driven;
use crate::supervise::prepare::InPlace;
use crate::supervise::run_state::{Ending, Input};
use crate::supervise::supervisor::Supervisor;

/// A helper on its way to the sandbox's namespaces.
type PostedEntryHelper = tokio::task::JoinHandle<Result<EntryHelper, EntryError>>;

/// Why there is no agent that runs.
pub(crate) enum NotLaunched {
    /// By an order, by the clock, or because the journal cannot be written.
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
    /// The end of a run whose agent was never let go.
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

/// Brings the run's sandbox up and lets its agent go.
pub(crate) async fn hold(
    supervisor: &mut Supervisor,
    in_place: &mut InPlace,
    limits: PreparedLimits,
    guard: &mut PostedGuard,
) -> Result<Sandbox, NotLaunched> {
    guard.stands().await.map_err(LaunchError::Guard)?;
    tracing::debug!("the guard is posted");
    let held = bring_up(supervisor, in_place, limits).await;
    // Whatever came of it: what was started is bound to our life, or gone.
    guard.dismiss().await;
    let sandbox = held?.release().await?;
    supervisor.step(Input::Released, None);
    Ok(sandbox)
}

/// Brings a sandbox to the point where one word lets its agent go.
async fn bring_up(
    supervisor: &mut Supervisor,
    in_place: &mut InPlace,
    limits: PreparedLimits,
) -> Result<HeldSandbox, NotLaunched> {
    let InPlace { prepared, workspace, .. } = in_place;
    supervisor.catch_up();
    supervisor.go_on()?;
    // Started elsewhere and before it is needed: it is there when there are namespaces to enter.
    let is_sandbox = matches!(prepared.launchable, Launchable::Sandbox { .. });
    let helper = is_sandbox.then(|| tokio::task::spawn_blocking(EntryHelper::post));
    let mut held = supervisor.attend(HeldSandbox::start(&prepared.launchable)).await?;
    tracing::debug!("bubblewrap has a child");
    if let Err(error) = held.write_down(prepared.run_dir()) {
        held.end().await;
        return Err(error.into());
    }
    // The disk is busy while bwrap is. If it fails here it fails again, loudly, with the first batch.
    supervisor.record.begin_sync().ok();
    let confining = verify_and_confine(prepared, &mut held, limits, helper);
    let mounts = supervisor.attend(confining).await;
    // The agent touches nothing that was not saved; a run that is to end need not wait for that.
    if let Ok(Some(saved)) = supervisor.attend_or_end(workspace.saved()).await {
        supervisor.record.event(&saved);
    }
    supervisor.attend(in_place.session_is_noted()).await;
    match decide_on_release(supervisor, &in_place.prepared, &mut held, mounts) {
        Ok(()) => Ok(held),
        Err(why) => {
            held.end().await;
            supervisor.note_signal(SignalName::Kill, "the sandbox");
            Err(why)
        }
    }
}

/// Compares what bubblewrap makes with the plan, and puts it under its limits. Returns how many mounts were compared.
async fn verify_and_confine(
    prepared: &Prepared,
    held: &mut HeldSandbox,
    limits: PreparedLimits,
    helper: Option<PostedEntryHelper>,
) -> Result<u32, LaunchError> {
    // All look at what bubblewrap is making, and none waits for another.
    let entering = enter(helper, held, prepared.network_mode() == NetworkMode::Allowlist);
    let moving = held.begin_to_confine(limits);
    let (mounts, made, limits) = tokio::join!(
        timed("the mounts are verified", held.verify(&prepared.launchable)),
        timed("the namespaces are entered", entering),
        timed("what is there is under its limits", moving),
    );
    let mounts = mounts?;
    let Made { segments, doors } = made?;
    held.keep_doors(doors);
    held.confine(limits?, &prepared.launchable, prepared.home(), segments).await?;
    Ok(mounts)
}

/// Writes to the log when a part of the work is done.
async fn timed<T>(what: &str, work: impl Future<Output = T>) -> T {
    let done = work.await;
    tracing::debug!("{what}");
    done
}

/// Says that the agent is let go, if it may be. What cannot be written down does not happen.
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
    tracing::debug!("the agent is at the gate, the mounts are verified, the limits hold");
    let profile = prepared.profile.clone();
    let mut warnings = prepared.warnings();
    warnings.extend(confined.warnings.iter().cloned());
    supervisor.record.event(&RunEvent::SandboxReady {
        profile,
        sandbox_pid,
        mounts,
        limits: Some(confined.in_force.clone()),
        network: Some(prepared.network_mode()),
        warnings,
    });
    supervisor.record.event(&RunEvent::Released);
    supervisor.flush(None);
    Ok(supervisor.go_on()?)
}

/// Has the helper do what must be done inside the sandbox's namespaces; in its network only if its way out begins there.
fn enter(
    helper: Option<PostedEntryHelper>,
    held: &HeldSandbox,
    goes_by_us: bool,
) -> impl Future<Output = Result<Made, EntryError>> + use<> {
    let work = helper.map(|helper| (helper, held.namespaces(goes_by_us)));
    async move {
        let Some((helper, namespaces)) = work else { return Ok(Made::default()) };
        let entering = async {
            let helper = helper.await.map_err(|error| EntryError::Spawn(io::Error::other(error)));
            helper??.enter(namespaces?).await
        };
        match entering.await {
            // Without its network a run has less than it was given. Without the rest it is watched less closely.
            Err(error) if !goes_by_us => {
                tracing::warn!(%error, "the sandbox could not be entered");
                Ok(Made::default())
            }
            made => made,
        }
    }
}
