//! `cli-config.json`, written as the real agent writes it: to a fixed temporary name, then renamed.

use std::fs;
use std::io;
use std::path::Path;

use nix::errno::Errno;
use serde_json::{Value, json};

use super::models::{self, Model};
use crate::process::ending::Ending;

/// The settings of the file. A file that is not JSON counts as the defaults.
pub struct Settings {
    value: Value,
}

impl Settings {
    /// Reads the settings. Writes the defaults if there is no file yet.
    pub fn load(path: &Path) -> Result<Self, Ending> {
        match fs::read(path) {
            Ok(bytes) => {
                Ok(Self { value: serde_json::from_slice(&bytes).unwrap_or_else(|_| defaults()) })
            }
            Err(_) => {
                let settings = Self { value: defaults() };
                settings.save(path).map(|()| settings)
            }
        }
    }

    /// Returns the model that an earlier run chose.
    pub fn model(&self) -> Option<Model> {
        models::find(self.value["model"]["modelId"].as_str()?)
    }

    /// Keeps a model for all later runs.
    pub fn remember_model(&mut self, model: &Model, path: &Path) -> Result<(), Ending> {
        if self.model().is_some_and(|known| known.id == model.id) || !self.value.is_object() {
            return Ok(());
        }
        self.value["model"] = json!({ "modelId": model.id, "displayName": model.display_name });
        self.value["hasChangedDefaultModel"] = json!(true);
        self.save(path)
    }

    /// Two agents that save at the same time use the same temporary name, and one of them fails.
    fn save(&self, path: &Path) -> Result<(), Ending> {
        let temporary = path.with_extension("json.tmp");
        let write = || {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::write(&temporary, format!("{:#}\n", self.value))
        };
        write().map_err(|err| {
            Ending::failure(format!("Error: {}, open '{}'", in_words(&err), temporary.display()))
        })?;
        fs::rename(&temporary, path).map_err(|err| rename_failure(path, &err))
    }
}

/// Returns the error of a run that cannot rename its temporary file, because another run renamed it first.
pub fn lost_race(path: &Path) -> Ending {
    rename_failure(path, &io::Error::from(Errno::ENOENT))
}

fn rename_failure(path: &Path, err: &io::Error) -> Ending {
    let temporary = path.with_extension("json.tmp");
    Ending::failure(format!(
        "Error: {}, rename '{}' -> '{}'",
        in_words(err),
        temporary.display(),
        path.display()
    ))
}

/// Describes an error in node's words.
fn in_words(err: &io::Error) -> String {
    let errno = Errno::from_raw(err.raw_os_error().unwrap_or_default());
    let words = match errno {
        Errno::EBUSY => "resource busy or locked".to_owned(),
        errno => errno.desc().to_lowercase(),
    };
    format!("{errno:?}: {words}")
}

fn defaults() -> Value {
    json!({
        "version": 1,
        "editor": { "vimMode": false },
        "permissions": { "allow": ["Shell(ls)"], "deny": [] },
        "approvalMode": "allowlist",
        "sandbox": { "mode": "disabled", "networkAccess": "user_config_with_defaults" },
        "attribution": { "attributeCommitsToAgent": true, "attributePRsToAgent": true },
        "network": { "useHttp1ForAgent": false },
        "hasChangedDefaultModel": false,
    })
}

#[cfg(test)]
#[path = "cli_config_tests.rs"]
mod tests;
