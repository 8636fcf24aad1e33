//! The registries that a run knows about, and those that it may reach.

use std::path::Path;

use run_protocol::{ExitCode, NetworkMode, RunRequest, RunSpec};
use sandbox_plan::Profile;

use super::{Admission, Chosen};
use crate::command_error::CommandError;
use crate::registries::{Registries, hosts_in_lock_files};
use crate::words::talk::Remark;

impl Admission<'_, '_> {
    /// The registries of the user's own tools, if the profile lets a run know about them.
    pub(super) fn found_registries(&self, chosen: &Chosen) -> Registries {
        match chosen.profile.profile.has_registries() {
            true => Registries::find(&self.host.environment, chosen.workspace.as_path()),
            false => Registries::default(),
        }
    }

    /// The registries that the run may reach. A continued run keeps those of the earlier run; only
    /// `--registries` adds those that the user's tools use now.
    pub(super) fn registries(
        &self,
        request: &RunRequest,
        profile: &Profile,
        found: &Registries,
    ) -> Result<Vec<String>, CommandError> {
        let refused =
            |what: String, hint: &str| Err(CommandError::new(ExitCode::Usage, what).hint(hint));
        let mode = request.network.unwrap_or(profile.network_mode());
        let asked = self.asked.registries.is_some();
        match (profile.has_registries(), mode) {
            (true, NetworkMode::Allowlist | NetworkMode::Host) => {}
            _ if !asked => return Ok(Vec::new()),
            (false, _) => {
                let what = format!("the profile `{}` refuses --registries", profile.name());
                return refused(what, "allow single hosts: --allow-host HOST");
            }
            (true, NetworkMode::None) => {
                let what = "--registries needs a network, and the run has none".to_owned();
                return refused(what, "leave out --network none");
            }
        }
        let own = found.hosts.iter().filter(|_| asked);
        let mut hosts: Vec<String> = Vec::new();
        for host in own.chain(request.registries.iter().flatten()).map(ToString::to_string) {
            if !hosts.contains(&host) {
                hosts.push(host);
            }
        }
        match asked && hosts.is_empty() {
            true => refused(
                "your tools' settings name no registry".to_owned(),
                "name the hosts: --registries=HOST,…",
            ),
            false => Ok(hosts),
        }
    }

    /// Says what `--registries` allows, and which hosts of the lock files it does not allow.
    pub(super) fn registry_remarks(&self, spec: &RunSpec) -> Vec<Remark> {
        if self.asked.registries.is_none() {
            return Vec::new();
        }
        let what = format!(
            "the run can reach the registries {}; they can carry data out",
            spec.registries.join(", ")
        );
        let mut remarks = vec![Remark::Warning(what)];
        let further: Vec<String> = hosts_in_lock_files(Path::new(&spec.workspace))
            .iter()
            .map(ToString::to_string)
            .filter(|host| !spec.hosts().any(|known| known == host))
            .collect();
        if !further.is_empty() {
            let named = further.join(", ");
            remarks.push(Remark::Note(format!(
                "the workspace's lock files also name {named}; an agent can write those files, so the run cannot reach these \
                 hosts; to allow them: --registries={}",
                further.join(",")
            )));
        }
        remarks
    }
}

#[cfg(test)]
#[path = "registries_tests.rs"]
mod tests;
