//! Prints a run: the agent's stream, with the run's own events between its lines.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;

use admission::host::short_id;
use admission::inheritance;
use admission::sandbox::profiles;
use admission::words::safe_text::on_one_line;
use admission::words::units;
use agent_stream::{AgentStream, TextMode, TextReducer};
use public_events::as_raw_line;
use run_journal::{AgentLine, EventNumber, JournalEntry, LineEnding};
use run_protocol::{
    Checkpoint, LimitsInForce, McpCallOutcome, NetVia, NetworkMode, RunEvent, RunOutcome,
    SignalName,
};

use super::network_words;
use super::stream_view::StreamView;
use crate::view::changes::audit_view;
use crate::view::styled_line::{BAD, BOLD, DIM, ODD, PLAIN, write_line};
use crate::view::width::Width;
use crate::view::words;

/// How many of stderr's last lines to show after a failure.
const STDERR_LINES: usize = 5;

/// Shows journal entries one by one.
#[derive(Debug)]
pub(crate) struct RunView {
    stream: StreamView,
    lines: AgentStream,
    text: TextReducer,
    /// Hosts that are already on the screen.
    reached: BTreeSet<String>,
    /// Refusals that are already on the screen.
    refused: BTreeSet<String>,
}

impl RunView {
    pub(crate) fn new(width: Width) -> Self {
        Self {
            stream: StreamView::new(width),
            lines: AgentStream::default(),
            text: TextReducer::new(TextMode::MayRepeat),
            reached: BTreeSet::new(),
            refused: BTreeSet::new(),
        }
    }

    /// Sets the terminal's new width.
    pub(crate) fn resize(&mut self, width: Width) {
        self.stream.resize(width);
    }

    pub(crate) fn show(&mut self, out: &mut dyn Write, entry: &JournalEntry<'_>) -> io::Result<()> {
        match entry {
            JournalEntry::Header(header) if header.epoch == EventNumber::FIRST_EPOCH => {
                self.stream.line(out, &[(BOLD, &format!("run {}", header.run))])
            }
            JournalEntry::Header(header) => self.dim(
                out,
                &format!("· a new supervisor continues the journal, epoch {}", header.epoch),
            ),
            JournalEntry::Agent { line, ending, .. } => self.show_agent_line(out, line, *ending),
            JournalEntry::Run { event, .. } => self.show_event(out, event),
            JournalEntry::UnknownRun { .. } => self.odd(out, "· an event from a newer caretaker"),
            JournalEntry::Unreadable { offset, length, .. } => self.odd(
                out,
                &format!(
                    "· {} at byte {offset} of the journal are damaged",
                    units::counted(*length, "byte", "bytes")
                ),
            ),
        }
    }

    /// Shows the text that waited for a result, and ends a line that is still open.
    pub(crate) fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let mut held = String::new();
        self.text.end(&mut |piece| held.push_str(piece));
        if !held.is_empty() {
            self.stream.show_text(out, &held)?;
        }
        self.stream.end(out)
    }

    fn show_agent_line(
        &mut self,
        out: &mut dyn Write,
        line: &AgentLine<'_>,
        ending: LineEnding,
    ) -> io::Result<()> {
        let line = self.lines.read_line(as_raw_line(line, ending));
        let mut added = String::new();
        self.text.observe(&line.event, &mut |piece| added.push_str(piece));
        self.stream.show(out, &line, &added)
    }

    fn show_event(&mut self, out: &mut dyn Write, event: &RunEvent) -> io::Result<()> {
        match event {
            RunEvent::Created { agent, agent_version, name, workspace, .. } => self.show_created(
                out,
                name.as_deref(),
                &agent.0,
                agent_version.as_deref(),
                &workspace.0,
            ),
            RunEvent::SandboxReady { profile, mounts, network, limits, warnings, .. } => {
                let held_by = limits.as_ref();
                self.show_sandbox(out, profile, *mounts, *network, held_by, warnings)
            }
            RunEvent::Widened { bounds } => {
                let bounds = on_one_line(&inheritance::sentence(bounds)).into_owned();
                self.odd(out, &format!("! may do more than the previous run: {bounds}"))
            }
            RunEvent::Queued { priority: 0 } => self.dim(out, "· queued"),
            RunEvent::Queued { priority } => {
                self.dim(out, &format!("· queued with priority {priority}"))
            }
            // The next event shows it.
            RunEvent::Attempt { .. } => Ok(()),
            RunEvent::Waiting { reason } => {
                self.odd(out, &format!("… waiting: {}", on_one_line(reason)))
            }
            RunEvent::Resuming { messages, pending, .. } => {
                let messages = units::counted(*messages, "message", "messages");
                self.dim(out, &format!("· resuming a conversation with {messages}"))?;
                pending.iter().try_for_each(|call| self.odd(out, &words::interrupted(call)))
            }
            // Not worth a line. `show` has both.
            RunEvent::WorkspaceSaved { .. } | RunEvent::Spent(_) => Ok(()),
            RunEvent::WorkspaceNotSaved { reason } => {
                let reason = on_one_line(reason);
                self.odd(
                    out,
                    &format!("! the workspace is not saved, so undo is not possible: {reason}"),
                )
            }
            RunEvent::Audit(audit) => audit_view::lines(audit)
                .iter()
                .try_for_each(|line| self.odd(out, &format!("! {line}"))),
            RunEvent::SetupOutput { text } => {
                self.dim(out, &format!("  set-up │ {}", on_one_line(text)))
            }
            // The agent's own lines show it.
            RunEvent::Released | RunEvent::PromptSent { .. } => Ok(()),
            RunEvent::Slow { silent_ms, tool } => {
                let during = match tool {
                    Some(tool) => format!(" in {}", on_one_line(tool)),
                    None => String::new(),
                };
                self.dim(out, &format!("… silent for {}{during}", units::duration(*silent_ms)))
            }
            RunEvent::Looping { .. } => {
                let repeated = words::repeated(event).unwrap_or_default();
                self.odd(out, &format!("! the agent repeats itself: {repeated}"))
            }
            RunEvent::ProtocolDrift { event } => {
                let event = on_one_line(event);
                self.odd(out, &format!("· unknown agent event: `{event}`"))
            }
            RunEvent::LimitReached { limit, after_ms } => {
                let after = units::duration(*after_ms);
                self.odd(out, &format!("! {}, after {after}", on_one_line(&limit.to_string())))
            }
            RunEvent::SettledWithoutResult { silent_ms } => {
                let silent = units::duration(*silent_ms);
                self.odd(out, &format!("! the answer is final, but no result came for {silent}"))
            }
            RunEvent::StreamClosed => self.odd(out, "! the agent closed its output"),
            RunEvent::Lingered { ms } => {
                let allowed = units::duration(*ms);
                self.dim(out, &format!("· the agent did not exit for {allowed} after its result"))
            }
            RunEvent::StopRequested { reason } => {
                self.dim(out, &format!("· stopping: {}", words::stop_reason(*reason)))
            }
            RunEvent::Signalled { signal, target } => {
                let name = match signal {
                    SignalName::Int => "SIGINT",
                    SignalName::Term => "SIGTERM",
                    SignalName::Kill => "SIGKILL",
                };
                self.dim(out, &format!("· {name} to {}", on_one_line(target)))
            }
            RunEvent::McpCall { tool, outcome, why } => {
                let what = match outcome {
                    // The agent's own line about the call is enough.
                    McpCallOutcome::Ok => return Ok(()),
                    McpCallOutcome::RateLimited => "called too often",
                    McpCallOutcome::Refused => "refused",
                    McpCallOutcome::Failed => "failed",
                };
                let why = why.as_deref().map_or(String::new(), |why| format!(": {why}"));
                self.dim(out, &on_one_line(&format!("· {tool}: {what}{why}")))
            }
            RunEvent::McpRefused { reason, count } => self.odd(
                out,
                &format!(
                    "! the agent's socket: {}{}",
                    words::mcp_refusal(*reason),
                    network_words::times(*count)
                ),
            ),
            RunEvent::NeedsHuman { question, about, text, options, host } => {
                let asked = format!("? {} ({question})", words::question(*about, host.as_deref()));
                let text = format!(" · {}", on_one_line(text));
                self.stream.line(out, &[(BOLD, &on_one_line(&asked)), (PLAIN, &text)])?;
                options
                    .iter()
                    .try_for_each(|option| self.dim(out, &format!("  {}", on_one_line(option))))?;
                self.dim(out, &format!("  hint: caretaker answer {} \"…\"", on_one_line(question)))
            }
            RunEvent::McpChanged { enabled, disabled, servers } => {
                let changes = words::server_changes(enabled, disabled);
                let servers = servers.join(", ");
                self.dim(out, &on_one_line(&format!("· MCP servers: {changes}; now {servers}")))
            }
            RunEvent::MessageSent { to, text, .. } => {
                self.dim(out, &format!("→ to run {}: {}", short_id(*to), on_one_line(text)))
            }
            RunEvent::MessagesDelivered { messages, .. } => {
                let messages = units::counted(messages.len() as u64, "message", "messages");
                self.dim(out, &format!("← {messages} delivered"))
            }
            RunEvent::ChildQueued { run, name } => {
                let name = name.as_ref().map_or(String::new(), |name| format!(" `{name}`"));
                self.dim(out, &on_one_line(&format!("· child{name} queued: run {run}")))
            }
            RunEvent::ChildStopped { run } => self.dim(out, &format!("· child stopped: run {run}")),
            RunEvent::WorkspaceMarked { label, number, .. } => {
                let label = on_one_line(label);
                self.dim(out, &format!("· checkpoint {number} saved: {label}"))
            }
            RunEvent::Progress { text, percent } => {
                let percent = percent.map_or(String::new(), |percent| format!("{percent:.0} % "));
                self.stream.line(out, &[(BOLD, &format!("◐ {percent}{}", on_one_line(text)))])
            }
            RunEvent::Reported { status, summary, artifacts } => {
                let status = format!("★ the agent reports: {}", words::reported(*status));
                let summary = format!(" · {}", on_one_line(summary));
                self.stream.line(out, &[(BOLD, &status), (PLAIN, &summary)])?;
                artifacts
                    .iter()
                    .try_for_each(|artifact| self.dim(out, &format!("  {}", on_one_line(artifact))))
            }
            RunEvent::NetAllowed {
                host: Some(host), via: NetVia::Tls | NetVia::Connect, ..
            } => self.show_reached(out, host),
            RunEvent::NetAllowed { .. } => Ok(()),
            RunEvent::NetDenied { host, reason, .. }
                if network_words::is_quiet(host.as_deref(), *reason) =>
            {
                Ok(())
            }
            RunEvent::NetDenied { host, port, reason, detail, count, .. } => {
                let place = network_words::place(host.as_deref(), *port);
                let times = network_words::times(*count);
                let why = network_words::refusal(*reason, detail.as_deref());
                if !self.refused.insert(format!("{place}: {why}")) {
                    return Ok(());
                }
                self.odd(out, &format!("! network: {place}{times} refused: {why}"))?;
                match network_words::flag(host.as_deref(), *port, *reason) {
                    Some(flag) => self.dim(out, &format!("  hint: {flag}")),
                    None => Ok(()),
                }
            }
            RunEvent::ProtectionLost { path } => {
                let path = path.0.display().to_string();
                let text = format!(
                    "! `{}` was removed or replaced on the host: it is no longer protected",
                    on_one_line(&path)
                );
                self.stream.line(out, &[(BAD, &text)])
            }
            RunEvent::ProtectionRestored { path } => {
                let path = path.0.display().to_string();
                let text =
                    format!("· `{}` changed on the host: protected again", on_one_line(&path));
                self.dim(out, &text)
            }
            RunEvent::LoginCarriedBack { .. } | RunEvent::LoginDropped { .. } => {
                let news = words::login_news(event).unwrap_or_default();
                self.odd(out, &format!("! {news}"))
            }
            RunEvent::DiskFull => self.stream.line(out, &[(BAD, "! the disk is full")]),
            RunEvent::RootPutBack { .. } => {
                self.odd(out, "! the store points to the old conversation again")
            }
            RunEvent::BucketDrift { directory, .. } => {
                let directory = directory.0.display().to_string();
                let kept = on_one_line(&directory);
                let text =
                    format!("! your own cursor-agent does not see this session; it is in `{kept}`");
                self.odd(out, &text)
            }
            RunEvent::Checkpoint(checkpoint) => self.show_checkpoint(out, checkpoint),
            RunEvent::Ended { outcome, why, duration_ms, stderr_tail, .. } => {
                self.show_end(out, outcome, why, *duration_ms, stderr_tail)
            }
        }
    }

    /// Shows each host once.
    fn show_reached(&mut self, out: &mut dyn Write, host: &str) -> io::Result<()> {
        match self.reached.insert(host.to_owned()) {
            true => self.dim(out, &format!("· network: {}", on_one_line(host))),
            false => Ok(()),
        }
    }

    fn show_created(
        &mut self,
        out: &mut dyn Write,
        name: Option<&str>,
        agent: &Path,
        version: Option<&str>,
        workspace: &Path,
    ) -> io::Result<()> {
        let program = match version {
            Some(cursor_home::SIMULATED_VERSION) => "simulated agent".into(),
            _ => agent.file_name().unwrap_or(agent.as_os_str()).to_string_lossy(),
        };
        let facts: Vec<String> = name
            .map(ToOwned::to_owned)
            .into_iter()
            .chain([program.into_owned()])
            .chain(version.map(ToOwned::to_owned))
            .chain([workspace.display().to_string()])
            .collect();
        self.dim(out, &format!("· {}", on_one_line(&facts.join(" · "))))
    }

    fn show_sandbox(
        &mut self,
        out: &mut dyn Write,
        profile: &str,
        mounts: u32,
        network: Option<NetworkMode>,
        limits: Option<&LimitsInForce>,
        warnings: &[String],
    ) -> io::Result<()> {
        let mounts = units::counted(u64::from(mounts), "mount", "mounts");
        let profile = on_one_line(profile);
        let network =
            network.map_or(String::new(), |network| format!(", network: {}", network.word()));
        let limits = limits.map_or(String::new(), |limits| {
            format!(", limits enforced by {}", words::backend(limits.backend))
        });
        if profile != profiles::OFF {
            self.dim(
                out,
                &format!("· sandbox `{profile}` is up, {mounts} verified{network}{limits}"),
            )?;
        }
        warnings
            .iter()
            .try_for_each(|warning| self.odd(out, &format!("! {}", on_one_line(warning))))
    }

    fn show_checkpoint(&mut self, out: &mut dyn Write, checkpoint: &Checkpoint) -> io::Result<()> {
        let messages = units::counted(checkpoint.messages, "message", "messages");
        let resumable = words::resumable(&checkpoint.resumable);
        let session = on_one_line(&checkpoint.session);
        self.dim(out, &format!("· session {session}: {messages}, {resumable}"))?;
        checkpoint.pending.iter().try_for_each(|pending| {
            let what = format!("{} {}", pending.tool, pending.subject);
            self.odd(out, &format!("· interrupted: {}", on_one_line(&what)))
        })
    }

    fn show_end(
        &mut self,
        out: &mut dyn Write,
        outcome: &RunOutcome,
        why: &str,
        duration_ms: u64,
        stderr_tail: &str,
    ) -> io::Result<()> {
        if *outcome != RunOutcome::Succeeded {
            let lines: Vec<&str> = stderr_tail.lines().collect();
            for line in &lines[lines.len().saturating_sub(STDERR_LINES)..] {
                self.dim(out, &format!("  stderr: {}", on_one_line(line)))?;
            }
        }
        self.end(out)?;
        let (style, mark) = words::mark(outcome);
        let outcome = format!("{mark} {}", words::outcome(outcome));
        let after = format!(" after {}", units::duration(duration_ms));
        let why =
            words::worth_saying(why).map_or(String::new(), |why| format!(": {}", on_one_line(why)));
        // Never cut the last line: it says how the run ended.
        write_line(out, &[(style, &outcome), (DIM, &after), (PLAIN, &why)], Width::Unlimited)
    }

    fn dim(&mut self, out: &mut dyn Write, text: &str) -> io::Result<()> {
        self.stream.line(out, &[(DIM, text)])
    }

    fn odd(&mut self, out: &mut dyn Write, text: &str) -> io::Result<()> {
        self.stream.line(out, &[(ODD, text)])
    }
}

#[cfg(test)]
#[path = "run_view_tests.rs"]
mod tests;
