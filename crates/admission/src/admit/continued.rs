//! What depends on the run before: which one that is, and what is found for a run that continues it.

use std::path::Path;

use cursor_home::WorkspacePath;
use run_protocol::{
    AgentKind, AgentProgram, ExitCode, McpChoice, NetworkMode, RunRequest, RunSpec, ToolApproval,
};
use sandbox_plan::{Confinement, Profile};

use super::{Admission, Errand};
use crate::command_error::CommandError;
use crate::host::Host;
use crate::host::agent_discovery::{self, AgentChoice};
use crate::inheritance;
use crate::inheritance::earlier_run::{self, Earlier};
use crate::request::named_secret;
use crate::sandbox::profiles::{self, FoundProfile, NamedBy};
use crate::words::safe_text::on_one_line;
use crate::words::talk::{note, say};

/// The run that another inherits from: the one that is tried again, or the last one of the session.
pub(super) fn run_before(
    host: &Host,
    errand: &Errand,
    asked: &RunRequest,
) -> Result<Option<Box<RunSpec>>, CommandError> {
    let earlier = match (errand.retry_of, errand.conversation.continues()) {
        (Some(failed), _) => earlier_run::of_run(&host.state, failed),
        (None, Some(session)) => earlier_run::of_session(&host.state, session)?,
        (None, None) => Earlier::None,
    };
    match earlier {
        Earlier::None => Ok(None),
        Earlier::Known(spec) => Ok(Some(spec)),
        // The user chose.
        Earlier::Lost if asked.profile.is_some() => Ok(None),
        Earlier::Lost => {
            let what = "what the last run of this session was allowed to do is lost";
            Err(CommandError::new(ExitCode::Usage, what)
                .because("its record was removed, or cannot be read")
                .hint("choose one with --profile NAME; all else is as the configuration says"))
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
        let found =
            agent_discovery::find(&choice, environment, self.program, Some(workspace.as_path()));
        match (found, &self.before) {
            (Err(error), Some(before))
                if flag.is_none() && error.exit_code() == ExitCode::AgentNotFound =>
            {
                let what = format!(
                    "the agent of the last run of this session is gone: `{}`, version {}",
                    before.agent.program.0.display(),
                    before.agent.version.as_deref().unwrap_or("unknown")
                );
                Err(CommandError::new(ExitCode::AgentNotFound, what)
                    .hint("choose one with --agent PATH --widen agent"))
            }
            (found, _) => found,
        }
    }

    /// In a sandbox tools run unasked: it is the guard. Without one they do only if the user says so. A continued run has what
    /// the run before had, if nothing is said and the profile is the same: what the user allowed was for that sandbox.
    pub(super) fn tool_approval(&self, profile: &Profile) -> Result<ToolApproval, CommandError> {
        let RunRequest { force, no_force, .. } = self.asked;
        let before = self.before.as_deref();
        let had = before.map(|before| before.tool_approval);
        let fresh = match profile.confinement() {
            Confinement::Bubblewrap if *force && had != Some(ToolApproval::AllowList) => {
                let what =
                    "--force is for runs without a sandbox; in one, tools run unasked anyway";
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

    /// What the user changed about the servers of the session that is continued, copied or replaced.
    pub(super) fn mcp_choice(&self) -> McpChoice {
        let before = self.before.as_deref();
        let session = self.errand.conversation.continues().or(before.map(|before| before.session));
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

    /// What the user should know of the run before and this one.
    pub(super) fn say_what_was_inherited(&self, spec: &RunSpec, profile: &FoundProfile) {
        let Some(before) = &self.before else { return };
        if !spec.widened.is_empty() {
            let sentence = inheritance::sentence(&spec.widened);
            say(&format!("warning: this run may do more than the one before: {sentence}"));
        }
        if profile.is_as_before {
            note(&format!(
                "the profile `{}` allows more than when the last run of this session began, and is used as it was then; take \
                 it as it is with --widen profile",
                on_one_line(&spec.profile)
            ));
        }
        for path in before.expose.iter().filter(|path| !spec.expose.contains(path)) {
            note(&format!("`{}` is not shown inside any more: it is gone", path.0.display()));
        }
        named_secret::remind(before, &self.asked.secret);
    }
}
