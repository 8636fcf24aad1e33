//! The environment variables inside.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use super::{Planner, name_of};
use crate::host_path::has_nul;
use crate::origin::Origin;
use crate::plan::PlanError;
use crate::request::{EnvVariable, Secrecy, VariableSource};
use crate::step::{PlannedStep, Step};

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
