//! The agent's login, keys and named secrets. None of them is ever written to disk.

use std::path::PathBuf;

use cursor_home::CursorRoots;
use run_protocol::{AgentKind, AgentProgram, ExitCode, NetworkMode};
use run_shim::ShimEnvironment;
use sandbox_plan::{Confinement, Profile};

use super::Admission;
use super::host_proxy::host_proxy;
use crate::command_error::CommandError;
use crate::host::environment::Environment;
use crate::host::login_file;
use crate::request::named_secret::{LOGIN_KEYS, NamedSecret};

/// The login of the simulated agent. Long and odd, so that no other text contains it and redaction does no harm.
pub(crate) const SIMULATED_KEY: &str = "simulated-key-that-opens-nothing";

/// True if the user logs in with an API key. Keys reach the agent through the shim's environment only.
pub fn has_key(environment: &Environment) -> bool {
    LOGIN_KEYS.iter().any(|name| environment.variable(name).is_some())
}

impl Admission<'_, '_> {
    /// The names of the run's secrets: those of the earlier run, and those of the request.
    pub(super) fn secret_names(&self) -> Vec<String> {
        let mut names = self.before.as_ref().map_or_else(Vec::new, |before| before.secrets.clone());
        let given = self.secrets.iter().map(|secret| &secret.name);
        let new: Vec<String> = given.filter(|name| !names.contains(name)).cloned().collect();
        names.extend(new);
        names
    }

    pub(super) fn shim_environment(
        &self,
        agent: &AgentProgram,
        roots: &CursorRoots,
        profile: &Profile,
    ) -> Result<ShimEnvironment, CommandError> {
        let environment = &self.host.environment;
        let named = self.secrets.iter().cloned();
        let mut secrets: Vec<(String, String)> =
            named.map(|secret| (secret.name, secret.value)).collect();
        for name in LOGIN_KEYS {
            let is_named = secrets.iter().any(|(named, _)| named == name);
            let Some(value) = environment.variable(name).filter(|_| !is_named) else { continue };
            let value = value.to_str().ok_or_else(|| {
                CommandError::new(ExitCode::Usage, format!("`{name}` is not UTF-8"))
            })?;
            secrets.push((name.to_owned(), value.to_owned()));
        }
        if !secrets.iter().any(|(name, _)| LOGIN_KEYS.contains(&name.as_str())) {
            match agent.kind {
                AgentKind::Simulated => {
                    secrets.push(("CURSOR_API_KEY".to_owned(), SIMULATED_KEY.to_owned()));
                }
                AgentKind::Cursor if self.login_file(agent, roots).is_some() => {}
                // Without a sandbox the agent may use a keychain that Caretaker cannot see.
                AgentKind::Cursor if profile.confinement() == Confinement::None => {}
                AgentKind::Cursor => {
                    return Err(CommandError::new(
                        ExitCode::AuthenticationMissing,
                        "cursor-agent is not logged in",
                    )
                    .hint("log in with `cursor-agent login`, or set CURSOR_API_KEY"));
                }
            }
        }
        let log_filter = environment.variable("RUST_LOG").and_then(|filter| filter.to_str());
        // The shim connects for the agent only if there is an allow-list, and then it needs the host's proxy.
        let proxy = match self.network_mode(profile) {
            NetworkMode::Host | NetworkMode::None => None,
            NetworkMode::Allowlist => host_proxy(environment)?.map(|proxy| proxy.address),
        };
        Ok(ShimEnvironment { secrets, proxy, log_filter: log_filter.map(ToOwned::to_owned) })
    }

    /// The user's login file. `None` if the run logs in with a key, or if the agent is simulated.
    pub(super) fn login_file(&self, agent: &AgentProgram, roots: &CursorRoots) -> Option<PathBuf> {
        let is_key = |secret: &NamedSecret| LOGIN_KEYS.contains(&secret.name.as_str());
        let has_key = has_key(&self.host.environment) || self.secrets.iter().any(is_key);
        if agent.kind == AgentKind::Simulated || has_key {
            return None;
        }
        login_file::find(roots)
    }
}
