//! Everything that a run takes from the run that it continues or repeats.

use std::borrow::Cow;
use std::path::Path;

use cursor_home::{CursorRoots, WorkspacePath};
use run_protocol::{
    AgentKind, AgentPolicy, AgentProgram, Bound, ExitCode, McpChoice, NetworkMode, RunRequest,
    RunSpec, ToolApproval,
};
use sandbox_plan::{Confinement, Profile};

use super::{Admission, Chosen, RunContext};
use crate::command_error::CommandError;
use crate::host::Host;
use crate::host::agent_discovery::{self, AgentChoice};
use crate::inheritance;
use crate::inheritance::earlier_run::{self, Earlier};
use crate::request::named_secret;
use crate::sandbox::profiles::{self, FoundProfile, NamedBy};
use crate::sandbox::user_policy;
use crate::words::safe_text::on_one_line;
use crate::words::talk::Remark;
use crate::worktrees;

/// The run to inherit from: the run to repeat, or the session's last run.
pub(super) fn run_before(
    host: &Host,
    context: &RunContext,
    asked: &RunRequest,
) -> Result<Option<Box<RunSpec>>, CommandError> {
    let earlier = match (context.retry_of, context.conversation.continues()) {
        (Some(failed), _) => earlier_run::of_run(&host.state, failed),
        (None, Some(session)) => earlier_run::of_session(&host.state, session)?,
        (None, None) => Earlier::None,
    };
    match earlier {
        Earlier::None => Ok(None),
        Earlier::Known(spec) => Ok(Some(spec)),
        // The user chose a profile, so the run need not inherit one.
        Earlier::Lost if asked.profile.is_some() => Ok(None),
        Earlier::Lost => {
            let what = "the limits of this session's last run are lost";
            Err(CommandError::new(ExitCode::Usage, what)
                .because("its record was removed, or cannot be read")
                .hint("choose a profile with --profile NAME; everything else comes from the configuration"))
        }
    }
}

impl Admission<'_, '_> {
    pub(super) fn profile(&self) -> Result<FoundProfile, CommandError> {
        let places = &self.host.places;
        let before = match (&self.asked.profile, &self.before) {
            (Some(name), _) => return profiles::find(places, name, NamedBy::CommandLine),
            (None, None) => {
                return profiles::find(places, &self.config.profile, NamedBy::Configuration);
            }
            (None, Some(before)) => before,
        };
        let found = profiles::find(places, &before.profile, NamedBy::EarlierRun)?;
        match inheritance::keeps_profile(before, &found.profile, self.asked) {
            true => profiles::as_it_was(before),
            false => Ok(found),
        }
    }

    pub(super) fn agent(&self, workspace: &WorkspacePath) -> Result<AgentProgram, CommandError> {
        let environment = &self.host.environment;
        let of_before = self.before.as_ref().map(|before| match before.agent.kind {
            AgentKind::Simulated => Path::new(agent_discovery::SIMULATED),
            AgentKind::Cursor => before.agent.program.0.as_path(),
        });
        let flag = self.asked.agent.as_deref();
        let choice = AgentChoice::of(flag.or(of_before), self.config.agent.as_deref(), environment);
        // The agent's program must not be in the workspace, or in the repository that a worktree belongs to: agents
        // write to both.
        let repository = worktrees::origin_of(self.host, workspace.as_path());
        let repository = repository.map(|origin| origin.repository.0);
        let forbidden: Vec<&Path> =
            [workspace.as_path()].into_iter().chain(repository.as_deref()).collect();
        let find = |choice| agent_discovery::find(choice, environment, self.program, &forbidden);
        match (find(&choice), &self.before) {
            (Err(error), Some(before))
                if flag.is_none() && error.exit_code() == ExitCode::AgentNotFound =>
            {
                let present = AgentChoice::of(None, self.config.agent.as_deref(), environment);
                if let Ok(present) = find(&present)
                    && agent_discovery::is_update(&present, &before.agent)
                {
                    return Ok(present);
                }
                let what = format!(
                    "the agent of this session's last run is gone: `{}`, version {}",
                    before.agent.program.0.display(),
                    before.agent.version.as_deref().unwrap_or("unknown")
                );
                Err(CommandError::new(ExitCode::AgentNotFound, what)
                    .hint("choose one with --agent PATH --widen agent"))
            }
            (found, _) => found,
        }
    }

    /// The earlier run. If the user's agent has updated itself since, with the new version: that is not the user's wish
    /// to have another agent.
    pub(super) fn before_with(&self, agent: &AgentProgram) -> Option<Cow<'_, RunSpec>> {
        let before = self.before.as_deref()?;
        Some(match self.is_updated(agent) {
            true => Cow::Owned(RunSpec { agent: agent.clone(), ..before.clone() }),
            false => Cow::Borrowed(before),
        })
    }

    fn is_updated(&self, agent: &AgentProgram) -> bool {
        let before = self.before.as_ref().filter(|_| self.asked.agent.is_none());
        before.is_some_and(|before| agent_discovery::is_update(agent, &before.agent))
    }

    /// The user's rules that apply now. `None`: without a sandbox, the agent reads the user's own files.
    pub(super) fn present_policy(
        &self,
        workspace: &Path,
        profile: &Profile,
        roots: &CursorRoots,
    ) -> Result<Option<AgentPolicy>, CommandError> {
        if profile.confinement() == Confinement::None {
            return Ok(None);
        }
        let origin = worktrees::origin_of(self.host, workspace);
        let checkout = origin.as_ref().map(|origin| origin.repository.0.as_path());
        let projects = user_policy::projects(workspace, checkout);
        user_policy::present(roots.config(), roots.home(), &projects).map(Some)
    }

    /// The rules of the run: as in the earlier run, but never weaker than now.
    pub(super) fn policy(&self, chosen: &Chosen, request: &RunRequest) -> Option<AgentPolicy> {
        let before = self.before.as_ref().and_then(|before| before.policy.as_ref());
        let before = before.filter(|_| !self.asked.widen.contains(&Bound::Permissions));
        let mut policy = user_policy::continued(chosen.policy.clone()?, before);
        if request.model.is_some() {
            policy.model.clear();
        }
        Some(policy)
    }

    /// In a sandbox all tools run without asking, because the sandbox protects the host. Without a sandbox they do so
    /// only if the user allows it. A continued run keeps the earlier setting, if the profile is the same: the user
    /// allowed it for that profile.
    pub(super) fn tool_approval(&self, profile: &Profile) -> Result<ToolApproval, CommandError> {
        let RunRequest { force, no_force, .. } = self.asked;
        let before = self.before.as_deref();
        let had = before.map(|before| before.tool_approval);
        let fresh = match profile.confinement() {
            Confinement::Bubblewrap if *force && had != Some(ToolApproval::AllowList) => {
                let what =
                    "--force is only for runs without a sandbox; in a sandbox all tools run anyway";
                return Err(CommandError::new(ExitCode::Usage, what).hint("leave it out"));
            }
            Confinement::Bubblewrap if *no_force => ToolApproval::AllowList,
            Confinement::None if !*force => ToolApproval::AllowList,
            Confinement::Bubblewrap | Confinement::None => ToolApproval::Force,
        };
        let is_other = before.is_some_and(|before| before.profile != profile.name());
        Ok(match had {
            None => fresh,
            Some(_) if *force || *no_force => fresh,
            Some(ToolApproval::Force) if is_other => fresh,
            Some(had) => had,
        })
    }

    /// The user's changes to the MCP servers of the session that this run continues, copies or replaces.
    pub(super) fn mcp_choice(&self) -> McpChoice {
        let before = self.before.as_deref();
        let session = self.context.conversation.continues().or(before.map(|before| before.session));
        let choice = session.map(|it| earlier_run::mcp_choice(&self.host.state, it, before));
        choice.unwrap_or_default()
    }

    pub(super) fn network_mode(&self, profile: &Profile) -> NetworkMode {
        let asked = match &self.before {
            None => self.asked.network,
            Some(before) => inheritance::network(before, profile, self.asked),
        };
        asked.unwrap_or(profile.network_mode())
    }

    /// Returns remarks for the user about the differences between the earlier run and this one.
    pub(super) fn inheritance_remarks(&self, spec: &RunSpec, chosen: &Chosen) -> Vec<Remark> {
        let Some(before) = &self.before else { return Vec::new() };
        let mut remarks = Vec::new();
        if !spec.widened.is_empty() {
            let sentence = inheritance::sentence(&spec.widened);
            let what = format!("this run may do more than the one before: {sentence}");
            remarks.push(Remark::Warning(what));
        }
        if self.is_updated(&spec.agent) {
            let version = |agent: &AgentProgram| match &agent.version {
                Some(version) => on_one_line(version).into_owned(),
                None => "an unknown version".to_owned(),
            };
            let (had, has) = (version(&before.agent), version(&spec.agent));
            let what = format!(
                "the agent was updated: the last run of this session had {had}, which is gone; this run has \
                 {has}"
            );
            remarks.push(Remark::Note(what));
        }
        if chosen.profile.is_as_before {
            remarks.push(Remark::Note(format!(
                "the profile `{}` allows more than when the last run of this session began, so its old text is used; to use \
                 the new text: --widen profile",
                on_one_line(&spec.profile)
            )));
        }
        for path in before.expose.iter().filter(|path| !spec.expose.contains(path)) {
            let what =
                format!("`{}` no longer exists, so the sandbox does not show it", path.0.display());
            remarks.push(Remark::Note(what));
        }
        remarks.extend(named_secret::reminders(before, &self.secrets));
        remarks
    }
}
