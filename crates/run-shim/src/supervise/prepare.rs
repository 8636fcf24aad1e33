//! Phase two: the shim prepares the files and limits of the agent's sandbox, and tells the starter that the run is
//! ready.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;

use ground::now_ms;
use run_journal::StateRoot;
use run_protocol::{RunEvent, RunSpec};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::agent_tools::agent_desk::{AgentDesk, ChildMaker};
use crate::agent_tools::mcp_server::{self, WhoAmI};
use crate::control::start_shim::{ShimReport, report};
use crate::limits::PreparedLimits;
use crate::preparation::Prepared;
use crate::preparation::error::PrepareError;
use crate::session::{session_memory, session_record};
use crate::supervise::claim::{Claim, unusable};
use crate::supervise::refusal::{NotBegun, ShimError};
use crate::supervise::supervisor::Supervisor;
use crate::supervise::workspace_watch::WorkspaceWatch;
use crate::supervise::{Environment, QUEUE};

/// A run with everything except its sandbox.
pub(crate) struct InPlace {
    pub(crate) prepared: Prepared,
    pub(crate) workspace: WorkspaceWatch,
    /// The events of the shim's own tasks, such as the one that writes the prompt.
    pub(crate) own_events: mpsc::Receiver<RunEvent>,
    pub(crate) own_sender: mpsc::Sender<RunEvent>,
    /// The events of the agent's tool calls.
    pub(crate) tool_events: mpsc::Receiver<RunEvent>,
    /// Serves the agent's tools.
    pub(crate) mcp: Option<JoinHandle<Infallible>>,
    /// The machine's own proxy.
    pub(crate) proxy: Option<String>,
    /// Records that this run has the session.
    pub(crate) session: SessionNote,
}

/// The durable record that a run has its session, and the report to the run's starter that follows it. It takes as long
/// as the disk needs.
pub(crate) struct SessionNote {
    /// `None` once it has begun.
    to_write: Option<ToWrite>,
    writing: Option<JoinHandle<()>>,
}

struct ToWrite {
    state_root: StateRoot,
    spec: RunSpec,
    generation: u64,
    is_unreported: bool,
}

impl SessionNote {
    fn of(claim: &mut Claim) -> Self {
        let to_write = ToWrite {
            state_root: claim.state_root.clone(),
            spec: claim.spec.clone(),
            generation: claim.locks.generation(),
            is_unreported: claim.is_to_report(),
        };
        Self { to_write: Some(to_write), writing: None }
    }

    /// Records that the run has the session, then tells the starter that the run is ready. It works on another thread
    /// while the sandbox starts.
    pub(crate) fn begin(&mut self) {
        if let Some(to_write) = self.to_write.take() {
            self.writing = Some(tokio::task::spawn_blocking(move || to_write.write()));
        }
    }

    /// Waits until the record says that this run has the session. The agent's release and the next write to the record
    /// must come after that.
    pub(crate) async fn written(&mut self) {
        self.begin();
        if let Some(writing) = self.writing.take() {
            writing.await.ok();
        }
    }
}

impl ToWrite {
    fn write(&self) {
        let Self { state_root, spec, generation, is_unreported } = self;
        if let Err(error) = session_record::write(state_root, spec, *generation, None) {
            tracing::warn!(%error, "could not write the session's record");
        }
        if *is_unreported {
            report(&ShimReport::Ready).ok();
        }
    }
}

pub(crate) async fn prepare(
    supervisor: &mut Supervisor,
    claim: &mut Claim,
    environment: &Environment,
) -> Result<(InPlace, PreparedLimits), NotBegun> {
    let put = put_in_place(claim, environment).await;
    let (prepared, limits) = put.map_err(|error| claim.refuse(error))?;
    if let Err(error) = write_down(supervisor, claim, &prepared) {
        prepared.take_back();
        return Err(claim.refuse(error));
    }
    let session = SessionNote::of(claim);
    let (own_sender, own_events) = mpsc::channel(QUEUE);
    prepared.keep_logins_the_same(&own_sender);
    tracing::debug!("everything is prepared");

    let ours = prepared.own_mount_points();
    let workspace =
        WorkspaceWatch::new(&claim.state_root, &claim.spec, ours.iter().map(PathBuf::as_path));
    let (tool_sender, tool_events) = mpsc::channel(QUEUE);
    let mcp = serve_tools(supervisor, claim, &workspace, tool_sender, environment);
    let proxy = environment.proxy.clone();
    let in_place =
        InPlace { prepared, workspace, own_events, own_sender, tool_events, mcp, proxy, session };
    Ok((in_place, limits))
}

/// Prepares the files and the limits at the same time. If one fails, removes the other.
async fn put_in_place(
    claim: &mut Claim,
    environment: &Environment,
) -> Result<(Prepared, PreparedLimits), ShimError> {
    let Claim { run, state_root, spec, profile, .. } = claim;
    // In the background, because making control groups is slow.
    let (run_id, resources) = (spec.run.to_string(), spec.resources);
    let limits = tokio::task::spawn_blocking(move || PreparedLimits::prepare(&run_id, resources));
    let profile = profile.await.map_err(unusable);
    let prepared = profile.and_then(|profile| {
        let profile = profile.map_err(PrepareError::from)?;
        Ok(Prepared::new(run, state_root, spec, profile, &environment.secrets)?)
    });
    // Wait for the limits even if the files failed, so that dropping them removes them.
    let limits = limits.await;
    let prepared = prepared?;
    match limits {
        Ok(Ok(limits)) => Ok((prepared, limits)),
        Ok(Err(error)) => {
            prepared.take_back();
            Err(ShimError::Prepare(error.into()))
        }
        Err(error) => {
            prepared.take_back();
            Err(unusable(error))
        }
    }
}

/// Records the beginning of the run, and starts redacting its secrets.
fn write_down(
    supervisor: &mut Supervisor,
    claim: &Claim,
    prepared: &Prepared,
) -> Result<(), ShimError> {
    let record = &mut supervisor.record;
    if claim.spec.queue.is_some() {
        // The journal is durable before the agent starts, so that a queued run starts only once, even after a power
        // failure.
        record.event(&RunEvent::Attempt { number: 1 });
        record.sync().map_err(unusable)?;
    }
    if let Some(before) = &claim.before {
        record.event(&session_memory::resuming(before));
    }
    if let Some(changed) = prepared.changed_servers() {
        record.event(&changed);
    }
    record.keep_secret(prepared.secrets());
    record.watch_login(prepared.login_watch());
    Ok(())
}

/// Serves the shim's tools for the agent.
fn serve_tools(
    supervisor: &Supervisor,
    claim: &mut Claim,
    workspace: &WorkspaceWatch,
    events: mpsc::Sender<RunEvent>,
    environment: &Environment,
) -> Option<JoinHandle<Infallible>> {
    let listener = claim.take_mcp_socket()?;
    let Claim { state_root, spec, handover, .. } = claim;
    let facts = who_am_i(spec);
    let (secrets, proxy) = (&environment.secrets, environment.proxy.clone());
    let desk = AgentDesk::new(
        state_root,
        spec,
        supervisor.record.redactor(),
        Arc::clone(handover),
        workspace.marker(events.clone(), supervisor.record.account().clone()),
        ChildMaker::new(state_root, spec, secrets, proxy, facts.deadline_ms),
    );
    Some(tokio::spawn(mcp_server::serve(listener, facts, events, Arc::new(desk))))
}

fn who_am_i(spec: &RunSpec) -> WhoAmI {
    // Time in the queue does not count.
    let began_ms = if spec.queue.is_some() { now_ms() } else { spec.created_ms };
    WhoAmI {
        run: spec.run,
        session: spec.session,
        name: spec.name.clone(),
        workspace: spec.workspace.clone(),
        model: spec.model.clone(),
        deadline_ms: (spec.limits.wall_ms > 0).then(|| began_ms + spec.limits.wall_ms),
        max_tool_calls: Some(spec.limits.tool_calls).filter(|most| *most > 0),
        max_tokens: Some(spec.limits.tokens).filter(|most| *most > 0),
        lineage: spec.lineage.clone(),
    }
}
