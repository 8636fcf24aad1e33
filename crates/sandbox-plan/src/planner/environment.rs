//! The environment variables inside.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{Planner, name_of, resolve};
use crate::host_path::{FileKind, has_nul};
use crate::origin::Origin;
use crate::plan::PlanError;
use crate::request::{EnvVariable, Secrecy, VariableSource};
use crate::step::{PlannedStep, Step};

/// The shells to choose from if the user's own shell is not visible inside. The agent prefers bash to a plain shell.
const SHELLS: [&str; 2] = ["/bin/bash", "/bin/sh"];

impl Planner<'_> {
    /// Sets the profile's variables, then those of the tools' caches, then those that the profile lets in from the host,
    /// then the run's. The last value wins.
    pub(super) fn environment(&mut self) -> Result<(), PlanError> {
        let mut variables: Vec<PlannedStep> = Vec::new();
        let mut set = |name: &OsString, value: &OsString, secrecy, origin| {
            variables.retain(
                |known| !matches!(&known.step, Step::SetVariable { name: other, .. } if other == name),
            );
            let (name, value) = (name.clone(), value.clone());
            variables
                .push(PlannedStep { step: Step::SetVariable { name, value, secrecy }, origin });
        };
        for (name, value) in &self.rules.environment.set {
            let text = OsString::from(&value.value);
            if has_nul(&text) {
                return Err(PlanError::NulByte(name.0.clone()));
            }
            set(&OsString::from(&name.0), &text, Secrecy::Public, value.origin.clone());
        }
        for (name, value, origin) in self.cache_variables() {
            set(&name.into(), &value.into(), Secrecy::Public, origin);
        }
        for source in [VariableSource::Host, VariableSource::Run] {
            for variable in self.request.env.iter().filter(|variable| variable.source == source) {
                check_variable(variable)?;
                if let Some(origin) = self.lets_in(variable) {
                    set(&variable.name, &variable.value, variable.secrecy, origin);
                }
            }
        }
        self.steps.append(&mut variables);
        Ok(())
    }

    /// Replaces the shell in `SHELL` if it is not visible inside. The agent starts its commands with it.
    pub(super) fn visible_shell(&mut self) -> Result<(), PlanError> {
        let is_shell =
            |step: &Step| matches!(step, Step::SetVariable { name, .. } if name == "SHELL");
        let at = self.steps.iter().position(|planned| is_shell(&planned.step));
        let Some(at) = at else { return Ok(()) };
        let Step::SetVariable { value, .. } = &self.steps[at].step else { return Ok(()) };
        let candidates = [PathBuf::from(value)].into_iter().chain(SHELLS.map(PathBuf::from));
        for shell in candidates {
            if self.is_visible_program(&shell)? {
                if let Step::SetVariable { value, .. } = &mut self.steps[at].step {
                    *value = shell.into_os_string();
                }
                break;
            }
        }
        Ok(())
    }

    /// Returns true if the path leads to the same program inside as on the host, where the agent cannot change it.
    fn is_visible_program(&self, path: &Path) -> Result<bool, PlanError> {
        let Some((physical, found)) = resolve(path)? else { return Ok(false) };
        let is_program = found.kind == FileKind::File && found.mode & 0o111 != 0;
        Ok(is_program && self.has_path(path) && self.is_shown(&physical))
    }

    fn lets_in(&self, variable: &EnvVariable) -> Option<Origin> {
        match variable.source {
            VariableSource::Host => self.rules.passes(&variable.name).cloned(),
            VariableSource::Run => {
                let lines = &self.rules.environment.run;
                let line =
                    lines.iter().find(|line| line.value.0.as_bytes() == variable.name.as_bytes());
                Some(line.map_or(Origin::Run, |line| line.origin.clone()))
            }
        }
    }
}

fn check_variable(variable: &EnvVariable) -> Result<(), PlanError> {
    let name = variable.name.as_bytes();
    if name.is_empty() || name.contains(&b'=') || has_nul(&variable.name) {
        return Err(PlanError::VariableName(name_of(&variable.name)));
    }
    if has_nul(&variable.value) {
        // The value may be a secret; its name says enough.
        return Err(PlanError::NulByte(name_of(&variable.name)));
    }
    Ok(())
}
