//! The process that supervises one run, from its locks to its last event.
//!
//! ```text
//!   locks ─► private roots ─► plan ─► ready ─► bwrap, held ─► verified ─► released ─► drive ─► checkpoint ─► ended
//!   └──────────── refused, nothing left ────┘└──────────── from here on everything is in the journal ─────────────┘
//! ```

mod close;
pub(crate) mod drive;
mod failure_class;
mod hold;
pub(crate) mod outcome_words;
mod prompt;
mod refusal;
pub(crate) mod run_state;
mod token_count;
pub(crate) mod workspace_watch;

use std::path::{Path, PathBuf};
use std::process::ExitCode as ProcessExit;
use std::sync::Arc;

use ground::now_ms;
use ground::with_causes;
use run_journal::{JournalWriter, RunDirectory, StateRoot};
use run_protocol::{RunEvent, RunId, RunOutcome, RunSpec};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::agent_tools::agent_desk::{AgentDesk, ChildMaker, Handover, report_end};
use crate::agent_tools::mcp_server::{self, WhoAmI};
use crate::control::control_socket::{self, Order, Written};
use crate::control::sockets::Sockets;
use crate::control::start_shim::{PROXY_VARIABLE, SECRET_PREFIX, ShimReport, report};
use crate::limits::PreparedLimits;
use crate::network::{Network, UpstreamProxy};
use crate::preparation::Prepared;
use crate::record::redaction::Redactor;
use crate::record::run_record::RunRecord;
use crate::record::shim_log;
use crate::record::stderr_keeper::StderrKeeper;
use crate::sandbox::launch_guard::LaunchGuard;
use crate::sandbox::{Launchable, forget_sandbox, was_killed_on_order};
use crate::session::lease_watch::LeaseWatch;
use crate::session::locks::{LockRefusal, RunLocks};
use crate::session::session_memory;
use crate::session::session_record;
use crate::supervise::close::{Closing, end_unrun};
use crate::supervise::drive::{Drive, Driven, Expected, RecordLimits};
use crate::supervise::hold::{NotLaunched, PostedGuard, Starting};
use crate::supervise::refusal::{ShimError, ShimRefusal};
use crate::supervise::run_state::Ending;
use crate::supervise::workspace_watch::WorkspaceWatch;

/// Events that wait for the journal; more than that come only from a flood, which then waits.
const EVENT_QUEUE: usize = 64;

/// The whole life of a shim: `caretaker shim <run directory>`.
pub fn shim_main(run_dir: &Path) -> ProcessExit {
    // What we inherited is nobody's business inside the sandbox.
    close_fds::set_fds_cloexec(3, &[]);
    // A terminal that closes takes its session along, and we are not to be in it. Fails only where we lead one already.
    nix::unistd::setsid().ok();
    // Whoever started us may have blocked signals for itself, and a mask is inherited: a shutdown would go unheard.
    nix::sys::signal::SigSet::all().thread_unblock().ok();
    nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_CORE, 0, 0).ok();
    let secrets = secrets_of_process();
    shim_log::start();

    let outcome = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(ShimError::Runtime)
        .and_then(|runtime| {
            let outcome = runtime.block_on(supervise(run_dir, &secrets));
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

/// Secrets reach a shim by its environment, which is readable by its user alone.
fn secrets_of_process() -> Vec<(String, String)> {
    std::env::vars()
        .filter_map(|(name, value)| Some((name.strip_prefix(SECRET_PREFIX)?.to_owned(), value)))
        .collect()
}

/// The proxy that this machine needs, in the same way: there may be a password in it. It was checked when the run was
/// accepted.
fn upstream_proxy_of_process() -> Option<UpstreamProxy> {
    proxy_of_process()?.parse().ok()
}

fn proxy_of_process() -> Option<String> {
    Some(std::env::vars().find(|(name, _)| name == PROXY_VARIABLE)?.1)
}

async fn supervise(run_dir: &Path, secrets: &[(String, String)]) -> Result<(), ShimError> {
    // Posted at once and elsewhere: it takes its place while we prepare.
    let mut guard = Some(tokio::task::spawn_blocking(LaunchGuard::post));
    let outcome = supervise_guarded(run_dir, secrets, &mut guard).await;
    // A run that was not launched must not be ended by its own guard either.
    if let Some(unused) = guard
        && let Ok(Ok(guard)) = unused.await
    {
        guard.dismiss().await;
    }
    outcome
}

async fn supervise_guarded(
    run_dir: &Path,
    secrets: &[(String, String)],
    guard: &mut Option<PostedGuard>,
) -> Result<(), ShimError> {
    let began = Instant::now();
    tracing::debug!("begins");
    let (run, state_root) = open(run_dir)?;
    let unusable = |error: &dyn std::error::Error| ShimError::Directory(with_causes(error));
    let spec = run.spec().map_err(|error| unusable(&error))?;
    let run_lock = run.lock().map_err(|error| unusable(&error))?;
    // Under the lock: whoever came first has begun it, or ended it.
    if spec.queue.is_some() && !run.is_queued().map_err(|error| unusable(&error))? {
        return Err(ShimError::Begun);
    }
    let writer = JournalWriter::open(&run, &run_lock).map_err(|error| unusable(&error))?;

    let mut sockets = Sockets::new(&spec.socket_dir.0, spec.run)
        .map_err(|source| ShimError::Sockets { path: spec.socket_dir.0.clone(), source })?;
    let (written, seen) = watch::channel(Written::default());
    let (order_sender, orders) = mpsc::channel(EVENT_QUEUE);
    if let Some(control) = sockets.control.take() {
        tokio::spawn(control_socket::serve(control, spec.run, seen, order_sender.clone()));
    }
    tokio::spawn(stop_on_signals(order_sender));
    let redactor = Redactor::new(secrets.iter().map(|(_, value)| value.as_str()));
    let record = RunRecord::new(writer, redactor, written);
    let mut starting = Starting::new(spec.limits.clone(), began, orders, record);

    tracing::debug!("the journal is open, the sockets listen");
    let mut locks = RunLocks::new(&state_root, &spec);
    let mut has_reported = false;
    if let Err(refusal) = locks.try_take() {
        if !spec.wait_for_locks || matches!(refusal, LockRefusal::Io(_)) {
            locks.forget_new_session();
            return Err(ShimError::Locked(refusal));
        }
        let reason = refusal.to_string();
        starting.record.event(&RunEvent::Waiting { reason: reason.clone() });
        starting.record.flush().map_err(|error| unusable(&error))?;
        report(&ShimReport::Waiting { reason }).ok();
        has_reported = true;
        if let Err((outcome, why)) = wait_for_locks(&mut locks, &mut starting, &spec).await {
            end_unrun(starting.record, &spec, outcome, why);
            return Ok(());
        }
    }
    tracing::debug!("the locks are taken");
    if let Some(lease) = locks.lease() {
        starting.record.stand_on(LeaseWatch::new(lease));
    }
    if let Err(error) = locks.clean_up_after_the_dead(&state_root, &spec.socket_dir.0) {
        if has_reported {
            end_unrun(starting.record, &spec, RunOutcome::SandboxFailed, error.to_string());
            return Ok(());
        }
        locks.forget_new_session();
        return Err(ShimError::Locked(error));
    }

    let before = match session_memory::look_before(&state_root, &spec) {
        Ok(before) => before,
        Err(refusal) if has_reported => {
            end_unrun(starting.record, &spec, RunOutcome::NotResumable, refusal.to_string());
            return Ok(());
        }
        Err(refusal) => return Err(refusal.into()),
    };
    let handover = Arc::new(Handover::new(&state_root, &spec));
    if let Err(why) = take_messages(&handover, &spec) {
        // Nothing is left to be said to the agent, or it cannot be found out; it is not bothered.
        if !has_reported {
            report(&ShimReport::Ready).ok();
        }
        end_unrun(starting.record, &spec, RunOutcome::Cancelled, why);
        return Ok(());
    }
    // In the background: control groups are slow to make.
    let (run_id, resources) = (spec.run.to_string(), spec.resources);
    let limits = tokio::task::spawn_blocking(move || PreparedLimits::prepare(&run_id, resources));
    let prepared = Prepared::new(&run, &state_root, &spec, secrets);
    // Taken into hand even where the rest failed, so that nothing of it stays.
    let limits = limits.await.map_err(|error| unusable(&error))?;
    let prepared = prepared.and_then(|prepared| match limits {
        Ok(limits) => Ok((prepared, limits)),
        Err(error) => {
            prepared.remove_mount_points();
            prepared.settle_session();
            Err(error.into())
        }
    });
    let (mut prepared, limits) = match prepared {
        Ok(prepared) => prepared,
        Err(error) if has_reported => {
            let why = with_causes(&error);
            end_unrun(starting.record, &spec, error.outcome(), why);
            return Ok(());
        }
        Err(error) => {
            locks.forget_new_session();
            return Err(error.into());
        }
    };
    if spec.queue.is_some() {
        // Durable before the agent can do anything: a queued run is not started again, not after a power failure either.
        starting.record.event(&RunEvent::Attempt { number: 1 });
        if let Err(error) = starting.record.sync() {
            prepared.remove_mount_points();
            prepared.settle_session();
            return Err(unusable(&error));
        }
    }
    if let Some(before) = &before {
        starting.record.event(&session_memory::resuming(before));
    }
    if let Some(changed) = prepared.changed_servers() {
        starting.record.event(&changed);
    }
    if let Err(error) = session_record::write(&state_root, &spec, locks.generation(), None) {
        tracing::warn!(%error, "what is known of the session could not be written down");
    }
    starting.record.keep_secret(prepared.secrets());
    starting.record.watch_login(prepared.login_watch());
    let (own_sender, mut own_events) = mpsc::channel(EVENT_QUEUE);
    prepared.keep_logins_the_same(&own_sender);
    if !has_reported {
        report(&ShimReport::Ready).ok();
    }

    tracing::debug!("everything is prepared");
    let ours = prepared.own_mount_points();
    let mut workspace =
        WorkspaceWatch::begin(&state_root, &spec, ours.iter().map(PathBuf::as_path));
    let (tool_sender, tool_events) = mpsc::channel(EVENT_QUEUE);
    let facts = who_am_i(&spec);
    let account = starting.record.account().clone();
    let desk = Arc::new(AgentDesk::new(
        &state_root,
        &spec,
        starting.record.redactor(),
        Arc::clone(&handover),
        workspace.marker(tool_sender.clone(), account.clone()),
        ChildMaker::new(&state_root, &spec, secrets, proxy_of_process(), facts.deadline_ms),
    ));
    let mcp = sockets
        .mcp
        .take()
        .map(|listener| tokio::spawn(mcp_server::serve(listener, facts, tool_sender, desk)));
    let launched = starting.launch(&prepared, limits, guard.take(), &mut workspace).await;
    let Starting { state, orders, record, changes, .. } = starting;
    let mut network = None;
    let has_run = launched.is_ok();
    let mut driven = match launched {
        Ok(mut sandbox) => {
            workspace.tidy();
            let (tell_exceeded, exceeded) = mpsc::channel(4);
            if let Some(doors) = sandbox.doors.take()
                && let Some(policy) = prepared.network_policy(upstream_proxy_of_process())
            {
                let tell = tell_exceeded.clone();
                network = Some(Network::open(doors, policy, own_sender.clone(), tell));
            }
            if let Some(stdin) = sandbox.stdin.take() {
                let prompt = std::mem::take(&mut prepared.prompt);
                tokio::spawn(crate::supervise::prompt::send(prompt, stdin, own_sender));
            }
            if let (Some(limits), Some(writable)) =
                (&mut sandbox.limits, prepared.writable_on_host())
            {
                limits.watch(writable, account.clone(), tell_exceeded);
            }
            let mounts = match &prepared.launchable {
                Launchable::Sandbox { plan, .. } => match sandbox.process.watch_mounts(plan) {
                    Ok(mounts) => Some(mounts),
                    // Of an agent that is gone already there is nothing to see.
                    Err(error) => {
                        tracing::warn!(%error, "the mounts of the sandbox are not watched");
                        None
                    }
                },
                Launchable::Unconfined(_) => None,
            };
            let drive = Drive {
                exceeded,
                mounts,
                state,
                began,
                sandbox,
                run_dir: run.path(),
                record,
                stderr: StderrKeeper::new(&run.stderr_log_path(), account.clone()),
                records: RecordLimits::new(account, &spec),
                expected: Expected {
                    session: spec.session.to_string(),
                    workspace: spec.workspace.clone(),
                },
                orders,
                tool_events,
                own_events: &mut own_events,
                handover,
                arrived: Vec::new(),
                forgotten: session_memory::watch(&prepared.store_db, before.as_ref()),
                servers: prepared.live_servers(&state_root, &spec),
                changes,
            };
            drive.run().await
        }
        Err(NotLaunched::Ended(ending)) => Driven::unrun(ending, String::new(), record),
        Err(NotLaunched::Failed(error)) => {
            let is_ordered = was_killed_on_order(run.path());
            let outcome =
                if is_ordered { RunOutcome::Cancelled } else { RunOutcome::SandboxFailed };
            Driven::unrun(Ending::Decided(outcome), with_causes(&error), record)
        }
    };
    if let Some(mcp) = mcp {
        mcp.abort();
    }
    prepared.end_what_is_left();
    for event in network.map(Network::close).into_iter().flatten() {
        driven.record.event(&event);
    }
    // The namespace is gone; what we put into the workspace goes before anybody else may come.
    forget_sandbox(run.path());
    prepared.remove_mount_points();
    let of_login = prepared.give_login_back();
    while let Ok(event) = own_events.try_recv() {
        driven.record.event(&event);
    }
    of_login.iter().for_each(|event| driven.record.event(event));
    prepared.settle_session();
    prepared.forget_servers();
    if has_run && let Some(audit) = workspace.audit().await {
        driven.record.event(&audit);
    }
    let closing = Closing { spec: &spec, state: &state_root, locks: &locks, before };
    closing.close(driven, &prepared.store_db).await;
    if let Err(error) = report_end(&state_root, &run) {
        tracing::warn!(%error, "the parent could not be told");
    }
    Ok(())
}

/// Takes the messages that are the run's prompt. What was passed on meanwhile is not passed on again.
fn take_messages(handover: &Handover, spec: &RunSpec) -> Result<(), String> {
    if spec.delivers.is_empty() {
        return Ok(());
    }
    match handover.offer_as_turn(&spec.delivers) {
        Ok(true) => Ok(()),
        Ok(false) => Err("its messages were delivered before it began".to_owned()),
        Err(error) => Err(with_causes(&error)),
    }
}

fn open(run_dir: &Path) -> Result<(RunDirectory, StateRoot), ShimError> {
    let no_run =
        || ShimError::Directory(format!("`{}` is not the directory of a run", run_dir.display()));
    let run: RunId = run_dir
        .file_name()
        .and_then(|name| name.to_str())
        .and_then(|name| name.parse().ok())
        .ok_or_else(no_run)?;
    let state_root = run_dir.parent().and_then(Path::parent).ok_or_else(no_run)?;
    let state_root = StateRoot::new(state_root.to_owned());
    let directory = RunDirectory::open(&state_root, run)
        .map_err(|error| ShimError::Directory(with_causes(&error)))?;
    Ok((directory, state_root))
}

/// Waits in a thread of its own; an order to stop ends the wait, and so does the wall clock.
async fn wait_for_locks(
    locks: &mut RunLocks,
    starting: &mut Starting,
    spec: &RunSpec,
) -> Result<(), (RunOutcome, String)> {
    let failed = |why: String| (RunOutcome::SupervisorFailed, why);
    match starting.attend_or_end(locks.wait_elsewhere()).await {
        Ok(taken) => {
            let taken = taken.map_err(|error| failed(error.to_string()))?;
            locks.put(taken.map_err(|refusal| failed(refusal.to_string()))?);
            Ok(())
        }
        Err(ending) => {
            let outcome = outcome_words::outcome_of(ending, "");
            let why = outcome_words::why(&outcome, None, "", &spec.limits);
            Err((outcome, format!("{why}, while it waited")))
        }
    }
}

/// SIGTERM and SIGINT to the shim come from a shutdown, or from somebody who knows no better way to end it: the session is
/// to be taken up again.
async fn stop_on_signals(orders: mpsc::Sender<Order>) {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return;
    };
    loop {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        if orders.send(Order::Interrupt).await.is_err() {
            return;
        }
    }
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
