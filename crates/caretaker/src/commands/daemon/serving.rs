//! `caretaker daemon serve`: runs the daemon, and reports its start to the process that started it.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::SocketAddr;

use admission::command_error::CommandError;
use admission::host::Host;
use admission::words::talk::say;
use caretaker_daemon::{DaemonConfig, DaemonNote, PROTOCOL, ServeError, serve};
use ground::with_causes;
use run_protocol::ExitCode;
use serde::{Deserialize, Serialize};

use crate::command_helper::CommandHelper;

#[derive(Debug, Default, clap::Args)]
pub(crate) struct ServeArgs {
    /// Listen on this loopback address too.
    #[arg(long)]
    pub(super) listen: Option<SocketAddr>,
    /// Speak this version of the protocol; for tests of upgrades.
    #[arg(long)]
    pub(super) protocol_version: Option<u32>,
    /// Report the start on stdout.
    #[arg(long)]
    pub(super) report: bool,
}

/// A new daemon's only report.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "snake_case")]
pub(super) enum StartReport {
    Ready {
        note: DaemonNote,
    },
    /// Another daemon started first.
    AlreadyThere,
    Failed {
        error: String,
    },
}

/// Serves until a signal ends the daemon.
pub(super) fn serve_here(
    helper: &CommandHelper,
    args: &ServeArgs,
) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    // When a terminal closes, its whole session ends, so the daemon leaves the session.
    if args.report {
        nix::unistd::setsid().ok();
    }
    start_log(host);
    let config = helper.config()?;
    let variable = |name| host.environment.variable(name);
    let as_text = |name| variable(name).and_then(|value| value.to_str());
    // systemd names the process that the sockets are for.
    let is_for_us = as_text("LISTEN_PID") == Some(std::process::id().to_string().as_str());
    let n_inherited = as_text("LISTEN_FDS").and_then(|number| number.parse().ok()).unwrap_or(0);
    let daemon_config = DaemonConfig {
        listen: args.listen,
        program: helper.program()?.to_owned(),
        caps: config.queue.caps(),
        hooks: config.hooks.iter().map(|hook| hook.hook(&host.environment.home)).collect(),
        day_budget: config.budgets.day.budget(),
        group_budget: config.budgets.group.budget(),
        ageing_ms: config.queue.ageing.milliseconds(),
        min_free_bytes: config.min_free.0,
        protocol: args.protocol_version.unwrap_or(PROTOCOL),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        n_inherited: if is_for_us { n_inherited } else { 0 },
        notify_socket: variable("NOTIFY_SOCKET").map(ToOwned::to_owned),
    };
    let served = serve(host.clone(), daemon_config, |note| {
        if args.report {
            report(&StartReport::Ready { note: note.clone() });
        } else {
            say(&format!("daemon started (pid {}), socket {}", note.pid, note.socket.0.display()));
        }
    });
    match served {
        Ok(()) => Ok(ExitCode::Success),
        Err(error) => {
            if args.report {
                report(&match &error {
                    ServeError::AlreadyThere(_) => StartReport::AlreadyThere,
                    error => StartReport::Failed { error: with_causes(error) },
                });
            }
            Err(error.into())
        }
    }
}

/// Reports once to the process that started the daemon, then points stdout at `/dev/null`, because the reader goes
/// away.
fn report(report: &StartReport) {
    let Ok(mut line) = serde_json::to_vec(report) else { return };
    line.push(b'\n');
    io::stdout().write_all(&line).and_then(|()| io::stdout().flush()).ok();
    if let Ok(nowhere) = OpenOptions::new().write(true).open("/dev/null") {
        nix::unistd::dup2_stdout(&nowhere).ok();
    }
}

fn start_log(host: &Host) {
    let filter = host.environment.variable("RUST_LOG").and_then(|filter| filter.to_str());
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::new(filter.unwrap_or("info")))
        .with_ansi(false)
        .log_internal_errors(false)
        .with_writer(io::stderr)
        .try_init()
        .ok();
}
