//! The daemon's life, from taking its lock to its end.
//!
//! ```text
//!   lock ─► listen ─► adopt live runs ─► ready ─► serve, schedule ─► SIGTERM, or SIGKILL at any moment
//! ```
//!
//! The daemon may be killed at any point: each run has its own shim, and everything that the daemon knows is in files.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use admission::command_error::CommandError;
use admission::continuation::{Continuation, CutOff, cut_off_runs};
use admission::credentials::QueuedRun;
use admission::host::Host;
use admission::queue_run::queue_continuation;
use admission::resumption::WhenHeld;
use ground::make_private_dir;
use run_journal::StateRoot;
use run_protocol::RunRequest;
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::systemd;
use crate::api::{BodyRoom, PromptRoom};
use crate::config::DaemonConfig;
use crate::counters::Counters;
use crate::daemon::Daemon;
use crate::hooks;
use crate::messages::deliver;
use crate::queue::queue_file::QueueGate;
use crate::queue::spending::SpentByRuns;
use crate::queue::{self, Queue};
use crate::run_watch::{RunWatch, WatchError};
use crate::server::connections::{serve_loopback, serve_unix};
use crate::server::instance::{Claim, DaemonNote};

/// Threads for blocking work: starting shims, reading stores. Idle threads end.
const MOST_BLOCKING: usize = 16;
const THREAD_PATIENCE: std::time::Duration = std::time::Duration::from_secs(3);

/// Why the daemon cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    #[error("the state directory `{}` cannot be used", path.display())]
    State { path: PathBuf, source: io::Error },
    #[error("a daemon already serves this state directory")]
    AlreadyThere(Option<Box<DaemonNote>>),
    #[error("the runtime could not be started")]
    Runtime(#[source] io::Error),
    #[error("cannot listen on the socket `{}`", path.display())]
    Socket { path: PathBuf, source: io::Error },
    #[error("`{0}` is not a loopback address; the daemon listens only on loopback")]
    NotLoopback(SocketAddr),
    #[error("cannot listen on `{address}`")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("cannot watch the runs: {0}")]
    Watch(String),
}

impl From<WatchError> for ServeError {
    fn from(error: WatchError) -> Self {
        Self::Watch(error.to_string())
    }
}

/// Serves until a signal stops the daemon. Calls `on_ready` when it can answer every request.
pub fn serve(
    host: Host,
    config: DaemonConfig,
    on_ready: impl FnOnce(&DaemonNote),
) -> Result<(), ServeError> {
    // Shims must not inherit the daemon's descriptors.
    close_fds::set_fds_cloexec(3, &[]);
    let runs = host.state.runs();
    make_private_dir(&runs).map_err(|source| ServeError::State { path: runs, source })?;
    let cannot = |source| ServeError::State { path: host.state.path().to_owned(), source };
    let claim = Claim::new(&host.state)
        .map_err(cannot)?
        .map_err(|note| ServeError::AlreadyThere(note.map(Box::new)))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(MOST_BLOCKING)
        .thread_keep_alive(THREAD_PATIENCE)
        .build()
        .map_err(ServeError::Runtime)?;
    let served = runtime.block_on(serve_claimed(host, config, &claim, on_ready));
    runtime.shutdown_background();
    served
}

async fn serve_claimed(
    host: Host,
    config: DaemonConfig,
    claim: &Claim,
    on_ready: impl FnOnce(&DaemonNote),
) -> Result<(), ServeError> {
    let stop = Stop::listen().map_err(ServeError::Runtime)?;
    let mut note = DaemonNote::of_this_process(config.protocol, &config.version, ground::now_ms());
    let (unix, socket) = listen_unix(&config, &host.places.daemon_socket())?;
    note.socket = socket.clone().into();
    let loopback = match config.listen {
        Some(address) => Some(listen_loopback(address).await?),
        None => None,
    };
    let mut token = None;
    if let Some(loopback) = &loopback {
        note.listen = loopback.local_addr().ok().map(|address| address.to_string());
        token =
            Some(make_token(&host.state).map_err(|source| ServeError::State {
                path: host.state.path().to_owned(),
                source,
            })?);
    }

    let (change_sender, changes) = mpsc::unbounded_channel();
    let (check_sender, checks) = mpsc::unbounded_channel();
    let watch = RunWatch::new(&host.state, change_sender, check_sender)?;
    let (state, run_sockets) = (host.state.clone(), host.places.sockets.clone());
    // In the background, so that a command that waits for the daemon does not wait for this.
    tokio::task::spawn_blocking(move || {
        let n_dead = run_shim::clean_up_after_the_dead(&state, &run_sockets);
        tracing::info!(n_dead, "cleaned up after dead runs");
    });
    let over = watch.adopt().await?;
    let n_lost = over.iter().filter(|run| run.state.is_interrupted()).count();
    let spent = SpentByRuns::new(&over);
    // Only hooks need the runs that have ended.
    let over = if config.hooks.is_empty() { Vec::new() } else { over };
    let daemon = Arc::new(Daemon {
        queue: Queue::new(host.state.path(), config.caps.clone()),
        host,
        children: Mutex::new(()),
        watch: watch.clone(),
        spent,
        counters: Counters::default(),
        bodies: BodyRoom::default(),
        prompts: PromptRoom::default(),
        token,
        note: note.clone(),
        config,
    });
    tokio::spawn(watch.watch());
    tokio::spawn(queue::work(Arc::clone(&daemon), changes));
    tokio::spawn(deliver::work(Arc::clone(&daemon), checks));
    if !daemon.config.hooks.is_empty() {
        tokio::spawn(hooks::work(Arc::clone(&daemon), over));
    }
    tokio::spawn(serve_unix(Arc::clone(&daemon), unix));
    if let Some(loopback) = loopback {
        tokio::spawn(serve_loopback(Arc::clone(&daemon), loopback));
    }
    let cannot = |source| ServeError::State { path: daemon.state().path().to_owned(), source };
    claim.announce(&note).map_err(cannot)?;
    let n_adopted = daemon.watch.runs().len();
    tracing::info!(pid = note.pid, socket = %socket.display(), n_adopted, n_lost, "ready");
    on_ready(&note);
    say(&daemon, "READY=1");
    if n_lost > 0 {
        continue_interrupted(&daemon);
    }

    stop.asked_for().await;
    tracing::info!("stopping; live runs continue");
    say(&daemon, "STOPPING=1");
    if daemon.config.n_inherited == 0 {
        fs::remove_file(&socket).ok();
    }
    Ok(())
}

/// Queues the continuation of interrupted runs that were started with `--restart`.
fn continue_interrupted(daemon: &Arc<Daemon>) {
    let daemon = Arc::clone(daemon);
    tokio::task::spawn_blocking(move || {
        if daemon.queue.gate() == QueueGate::Draining {
            tracing::warn!(
                "the queue is draining, so the daemon does not continue interrupted runs"
            );
            return;
        }
        if let Err(error) = try_continue_interrupted(&daemon) {
            let error = error.message_with_causes();
            tracing::warn!(error, "cannot list the interrupted runs");
        }
    });
}

fn try_continue_interrupted(daemon: &Daemon) -> Result<(), CommandError> {
    let Daemon { host, config: DaemonConfig { program, .. }, .. } = daemon;
    let config = host.load_config()?;
    let request = &RunRequest { restart: true, ..RunRequest::default() };
    let when_held = WhenHeld::Refuse;
    let continuation = Continuation { host, config: &config, program, request, when_held };
    let which = CutOff { interrupted: true, suspended: false, only_restart: true };
    for overview in &cut_off_runs(host, which)? {
        let run = overview.run;
        match queue_continuation(&continuation, overview, config.resume_prompt.as_bytes()) {
            Ok(QueuedRun { run: next, credentials, warnings }) => {
                tracing::info!(%run, %next, ?warnings, "queued the continuation of an interrupted run");
                daemon.take_over(next, credentials);
            }
            Err(error) => {
                let error = error.into_error().message_with_causes();
                tracing::warn!(%run, error, "an interrupted run cannot be continued");
            }
        }
    }
    Ok(())
}

fn say(daemon: &Daemon, state: &str) {
    let Some(socket) = &daemon.config.notify_socket else { return };
    if let Err(error) = systemd::notify(socket, state) {
        tracing::warn!(%error, "could not notify systemd");
    }
}

/// The signals that stop the daemon.
struct Stop {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    /// The daemon keeps running when its terminal closes.
    _hangup: tokio::signal::unix::Signal,
}

impl Stop {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            _hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn asked_for(mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

fn listen_unix(config: &DaemonConfig, path: &Path) -> Result<(UnixListener, PathBuf), ServeError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| ServeError::Socket { path, source }
    };
    if config.n_inherited > 0 {
        let inherited = Path::new("(inherited)");
        let listener = systemd::inherited_socket().map_err(failed(inherited))?;
        let listener = std::os::unix::net::UnixListener::from(listener);
        listener.set_nonblocking(true).map_err(failed(inherited))?;
        let address = listener.local_addr().map_err(failed(inherited))?;
        let path = address.as_pathname().unwrap_or(inherited).to_owned();
        return Ok((UnixListener::from_std(listener).map_err(failed(&path))?, path));
    }
    if let Some(directory) = path.parent() {
        run_shim::private_dir(directory).map_err(failed(directory))?;
    }
    // This process holds the lock, so the daemon that created the socket is gone.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(path)(error)),
        _ => {}
    }
    let listener = UnixListener::bind(path).map_err(failed(path))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(failed(path))?;
    Ok((listener, path.to_owned()))
}

async fn listen_loopback(address: SocketAddr) -> Result<TcpListener, ServeError> {
    if !address.ip().is_loopback() {
        return Err(ServeError::NotLoopback(address));
    }
    TcpListener::bind(address).await.map_err(|source| ServeError::Listen { address, source })
}

/// The file with the token for clients on loopback.
pub fn token_path(state: &StateRoot) -> PathBuf {
    state.path().join("daemon.token")
}

/// The token. The first daemon creates it and later daemons reuse it, so that an open page keeps working.
fn make_token(state: &StateRoot) -> io::Result<String> {
    let path = token_path(state);
    if let Ok(known) = fs::read_to_string(&path)
        && known.trim().len() == 64
        && fs::symlink_metadata(&path)?.permissions().mode() & 0o077 == 0
    {
        return Ok(known.trim().to_owned());
    }
    let mut random = [0; 32];
    fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&path)?;
    writeln!(file, "{token}")?;
    Ok(token)
}
