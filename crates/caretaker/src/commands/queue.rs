//! `caretaker queue`: shows and controls the daemon's queue.

use admission::command_error::{CommandError, OrFail};
use admission::config::caps::{CapKind, Caps};
use admission::host::short_id;
use admission::words::talk::say;
use admission::words::units;
use caretaker_daemon::{QueueGate, Waiting};
use clap::Subcommand;
use ground::now_ms;
use run_protocol::{ExitCode, RunId};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::command_helper::CommandHelper;
use crate::daemon_client::{DaemonClient, no_queue};
use crate::data_out::{print_json, print_table};

/// Show the daemon's queue and why each run is waiting; pause it, drain it, change its caps.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker queue
  caretaker queue pause                  accept new runs, but start none
  caretaker queue drain                  accept no new runs; start those that wait
  caretaker queue resume
  caretaker queue cap 4
  caretaker queue cap 2 --group nightly")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// Print one JSON object.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Accept new runs, but start none.
    Pause,
    /// Accept and start runs again.
    Resume,
    /// Accept no new runs; start those that are waiting.
    Drain,
    /// Set how many runs may be live at once.
    Cap(CapArgs),
}

#[derive(Debug, clap::Args)]
struct CapArgs {
    /// The number of runs; `none` removes the cap of a group, model or account.
    limit: Limit,
    /// Set the cap of this group.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["model", "account"])]
    group: Option<String>,
    /// Set the cap of this model.
    #[arg(long, value_name = "NAME", conflicts_with = "account")]
    model: Option<String>,
    /// Set the cap of this account.
    #[arg(long, value_name = "NAME")]
    account: Option<String>,
}

#[derive(Debug, Clone, Copy)]
struct Limit(Option<u32>);

impl std::str::FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self(None)),
            number => number
                .parse()
                .map(|number| Self(Some(number)))
                .map_err(|_| format!("`{number}` is neither a number nor `none`")),
        }
    }
}

#[derive(Debug, Deserialize)]
struct Queue {
    gate: QueueGate,
    caps: Caps,
    running: u32,
    waiting: Vec<InQueue>,
    lowered: Vec<Lowered>,
}

#[derive(Debug, Deserialize)]
struct InQueue {
    run: RunId,
    priority: i32,
    group: Option<String>,
    since_ms: u64,
    reason: Waiting,
}

#[derive(Debug, Deserialize)]
struct Lowered {
    account: String,
    cap: u32,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    let daemon = DaemonClient::find(host)?.ok_or_else(no_queue)?;
    let nothing = json!({});
    let answer: Value = match &args.action {
        None => daemon.get("/v1/queue")?,
        Some(Action::Pause) => daemon.post("/v1/queue/pause", &nothing)?,
        Some(Action::Resume) => daemon.post("/v1/queue/resume", &nothing)?,
        Some(Action::Drain) => daemon.post("/v1/queue/drain", &nothing)?,
        Some(Action::Cap(args)) => daemon.post("/v1/queue/caps", &args.request())?,
    };
    if args.json {
        return print_json(&answer);
    }
    let queue: Queue = serde_json::from_value(answer)
        .or_fail_as(ExitCode::DaemonUnavailable, || "cannot understand the daemon's answer")?;
    show(&queue)
}

impl CapArgs {
    fn request(&self) -> Value {
        let (cap, name) = match (&self.group, &self.model, &self.account) {
            (Some(group), _, _) => (CapKind::Group, group.as_str()),
            (_, Some(model), _) => (CapKind::Model, model.as_str()),
            (_, _, Some(account)) => (CapKind::Account, account.as_str()),
            _ => (CapKind::Total, ""),
        };
        json!({ "cap": cap, "name": name, "limit": self.limit.0 })
    }
}

fn show(queue: &Queue) -> Result<ExitCode, CommandError> {
    let gate = match queue.gate {
        QueueGate::Open => "open",
        QueueGate::Paused => "paused: new runs wait",
        QueueGate::Draining => "draining: no new runs",
    };
    let mut text = format!("{gate}; {} of at most {} runs live", queue.running, queue.caps.total);
    for (what, caps) in [
        ("group", &queue.caps.groups),
        ("model", &queue.caps.models),
        ("account", &queue.caps.accounts),
    ] {
        for (name, cap) in caps {
            text.push_str(&format!("; {what} {name}: at most {cap}"));
        }
    }
    for Lowered { account, cap } in &queue.lowered {
        text.push_str(&format!("; account {account} was rate limited: at most {cap}"));
    }
    say(&text);
    if queue.waiting.is_empty() {
        return Ok(ExitCode::Success);
    }
    let now = now_ms();
    let rows = queue.waiting.iter().map(|run| {
        [
            short_id(run.run),
            run.priority.to_string(),
            run.group.clone().unwrap_or_default(),
            units::age(now.saturating_sub(run.since_ms)),
            run.reason.to_string(),
        ]
    });
    let header = ["RUN", "PRIORITY", "GROUP", "WAITS", "FOR"];
    print_table(&header, rows)
}
