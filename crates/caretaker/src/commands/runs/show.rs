//! `caretaker show`: everything about one run.

use std::fs::File;
use std::io::{self, Read as _, Seek, SeekFrom};
use std::path::Path;

use admission::command_error::CommandError;
use admission::host::{Host, overview};
use agent_stream::{AgentStream, StreamSummary, Usage};
use caretaker_daemon::{HookRecord, records_of};
use public_events::as_raw_line;
use run_journal::{JournalEntry, Position, RunDirectory, RunOverview};
use run_protocol::{Audit, BytesPath, ExitCode, LimitsInForce, RunEvent, RunSpec, ToolApproval};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

use crate::command_helper::CommandHelper;
use crate::data_out::{print_json, print_view};
use crate::running::answer::Answer;
use crate::running::following::{open_journal, read_to_end};
use crate::view::run::network_sum::{NetworkSum, NetworkSummary};
use crate::view::run::show_view;

/// Shows at most this many bytes of stderr.
const STDERR_TAIL: u64 = 4 * 1024;

/// Show one run: its prompt, its answer, its outcome and the reason, and its files.
///
/// RUN is a run's id, a unique prefix or suffix of it, its name, or `-` for the latest run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The run.
    run: String,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Everything about a run, as `--json` prints it.
#[derive(Debug, Serialize)]
pub(crate) struct ShownRun {
    pub(crate) v: u32,
    #[serde(flatten)]
    pub(crate) overview: RunOverview,
    /// The reason for its state, in one sentence.
    pub(crate) why: Option<String>,
    /// The exit code of a command that waited for the run.
    pub(crate) exit_code: Option<u8>,
    /// The agent's answer; `null` if there is none.
    pub(crate) answer: Option<String>,
    /// The user's rules for the agent. Missing if the run has no sandbox, because the user's own files apply there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) policy: Option<ShownPolicy>,
    /// The resource limits, and what enforces them. `None` if unknown, for example before the sandbox exists.
    pub(crate) limits: Option<LimitsInForce>,
    /// Tool → outcome → number of calls.
    pub(crate) tools: BTreeMap<String, BTreeMap<String, u64>>,
    /// Calls that started and never completed.
    pub(crate) open_tools: Vec<String>,
    /// The last event about tool calls that the agent repeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) looping: Option<RunEvent>,
    pub(crate) usage: Option<Usage>,
    /// Agent lines that this version does not understand.
    pub(crate) unknown_kinds: BTreeMap<String, u64>,
    /// The tools whose dependency caches the run had.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) caches: Vec<String>,
    /// Its attempts to use the network.
    pub(crate) network: NetworkSum,
    /// The snapshot before the run, which `undo` needs.
    pub(crate) saved: Option<WorkspaceSaved>,
    /// The run's changes in the workspace.
    pub(crate) audit: Option<Audit>,
    /// Logins that the agent changed, and what Caretaker did with them.
    pub(crate) login: Vec<RunEvent>,
    /// The hooks that the daemon called, and their outcomes.
    pub(crate) hooks: Vec<HookRecord>,
    pub(crate) stderr_tail: String,
    pub(crate) files: RunFiles,
}

/// The user's rules and choices that the agent got in the sandbox, and those that it did not get.
#[derive(Debug, Serialize)]
pub(crate) struct ShownPolicy {
    pub(crate) deny: Vec<String>,
    /// Empty if all tools may run.
    pub(crate) allow: Vec<String>,
    /// The user's default model, if the run named none.
    pub(crate) model: Option<String>,
    pub(crate) http1: bool,
    pub(crate) team: Option<Value>,
    /// The programs of the administrator's hooks.
    pub(crate) hook_programs: Vec<BytesPath>,
    pub(crate) not_applied: Vec<String>,
}

impl ShownPolicy {
    fn of(spec: RunSpec) -> Option<Self> {
        let policy = spec.policy?;
        Some(Self {
            model: policy.model_name().map(ToOwned::to_owned),
            team: policy.team().cloned(),
            deny: policy.deny,
            allow: match spec.tool_approval {
                ToolApproval::AllowList => policy.allow,
                ToolApproval::Force => Vec::new(),
            },
            http1: policy.http1,
            hook_programs: policy.hook_programs,
            not_applied: policy.left_out,
        })
    }
}

/// The snapshot of the workspace, or why there is none.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum WorkspaceSaved {
    Yes { files: u64, left_out: Vec<BytesPath> },
    No { reason: String },
}

/// Where a run's files are.
#[derive(Debug, Serialize)]
pub(crate) struct RunFiles {
    pub(crate) directory: BytesPath,
    pub(crate) journal: BytesPath,
    pub(crate) prompt: BytesPath,
    pub(crate) stderr: BytesPath,
    pub(crate) supervisor_log: BytesPath,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    let run = host.find_run(&args.run)?;
    let shown = look_at(host, &run)?;
    if args.json { print_json(&shown) } else { print_view(|out| show_view::print(out, &shown)) }
}

fn look_at(host: &Host, run: &RunDirectory) -> Result<ShownRun, CommandError> {
    let overview = overview(run)?;
    let WholeJournal {
        summary,
        stderr_tail,
        limits,
        caches,
        looping,
        network,
        saved,
        audit,
        login,
    } = read_journal(run)?;
    let stderr_tail = match stderr_tail {
        Some(tail) => tail,
        // The run is live or lost: read the log so far.
        None => tail_of(&run.stderr_log_path()).unwrap_or_default(),
    };
    Ok(ShownRun {
        v: 1,
        why: crate::view::words::why(&overview.state).map(ToOwned::to_owned),
        exit_code: overview.state.outcome().map(|outcome| outcome.exit_code() as u8),
        answer: Answer::read(run, &overview.state).and_then(|answer| answer.text),
        policy: run.spec().ok().and_then(ShownPolicy::of),
        limits,
        tools: summary.tools,
        open_tools: summary.open_tools,
        looping,
        usage: summary.usage,
        unknown_kinds: summary.unknown_kinds,
        caches,
        network,
        saved,
        audit,
        login,
        hooks: records_of(&host.state, run.run_id()),
        stderr_tail,
        files: RunFiles {
            directory: run.path().into(),
            journal: run.journal_path().into(),
            prompt: run.prompt_path().into(),
            stderr: run.stderr_log_path().into(),
            supervisor_log: run.shim_log_path().into(),
        },
        overview,
    })
}

/// A summary of the whole journal.
#[derive(Default)]
struct WholeJournal {
    /// A summary of the agent's lines.
    summary: StreamSummary,
    /// The end of stderr, from the last event.
    stderr_tail: Option<String>,
    limits: Option<LimitsInForce>,
    caches: Vec<String>,
    looping: Option<RunEvent>,
    network: NetworkSum,
    saved: Option<WorkspaceSaved>,
    audit: Option<Audit>,
    login: Vec<RunEvent>,
}

/// Sums up the agent's lines, and keeps the facts that occur once.
fn read_journal(run: &RunDirectory) -> Result<WholeJournal, CommandError> {
    let mut read = WholeJournal::default();
    // The overview says why the journal cannot be read.
    let Ok(mut reader) = open_journal(run, Position::Start) else { return Ok(read) };
    let mut lines = AgentStream::default();
    let mut network = NetworkSummary::default();
    let mut on_entry = |entry: JournalEntry<'_>| match entry {
        JournalEntry::Agent { line, ending, .. } => {
            read.summary.observe(&lines.read_line(as_raw_line(&line, ending)), &mut |_| {});
        }
        JournalEntry::Run { event, .. } => match event {
            RunEvent::Ended { stderr_tail, .. } => read.stderr_tail = Some(stderr_tail),
            RunEvent::SandboxReady { ref limits, ref caches, .. } => {
                read.limits = limits.clone();
                read.caches = caches.clone();
                network.observe(event);
            }
            RunEvent::Looping { .. } => read.looping = Some(event),
            RunEvent::Audit(audit) => read.audit = Some(audit),
            RunEvent::LoginCarriedBack { .. } | RunEvent::LoginDropped { .. } => {
                read.login.push(event);
            }
            RunEvent::WorkspaceSaved { files, left_out, .. } => {
                read.saved = Some(WorkspaceSaved::Yes { files, left_out });
            }
            RunEvent::WorkspaceNotSaved { reason } => {
                read.saved = Some(WorkspaceSaved::No { reason });
            }
            event => network.observe(event),
        },
        _ => {}
    };
    read_to_end(&mut reader, &mut on_entry)?;
    read.summary.finish(lines.open_calls(), &mut |_| {});
    read.network = network.finish();
    Ok(read)
}

fn tail_of(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(STDERR_TAIL)))?;
    let mut tail = Vec::new();
    file.take(STDERR_TAIL).read_to_end(&mut tail)?;
    Ok(String::from_utf8_lossy(&tail).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_stderr_shows_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("stderr.log");
        std::fs::write(&path, format!("{}the end", "x".repeat(10_000))).unwrap();
        let tail = tail_of(&path).unwrap();
        assert_eq!(tail.len() as u64, STDERR_TAIL);
        assert!(tail.ends_with("xthe end"));
        assert!(tail_of(&directory.path().join("none")).is_err());
    }
}
