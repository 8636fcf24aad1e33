//! `cli-config.json`, written as the real agent writes it: to a fixed temporary name, then renamed.

use std::fs;
use std::io;
use std::path::Path;

use nix::errno::Errno;
use serde_json::{Value, json};

use crate::ending::Ending;
use crate::models::{self, Model};

/// The settings as found; a file that cannot be read counts as the defaults.
pub struct Settings {
    value: Value,
}

impl Settings {
    /// Reads the settings, and writes the defaults if there are none yet.
    pub fn load(path: &Path) -> Result<Self, Ending> {
        match fs::read(path) {
            Ok(bytes) => {
                Ok(Self { value: serde_json::from_slice(&bytes).unwrap_or_else(|_| defaults()) })
            }
            Err(_) => {
                let settings = Self { value: defaults() };
                settings.save(path)?;
                Ok(settings)
            }
        }
    }

    /// The model chosen by an earlier run.
    pub fn model(&self) -> Option<Model> {
        models::find(self.value["model"]["modelId"].as_str()?)
    }

    /// A model that was asked for once stays for all later runs.
    pub fn remember_model(&mut self, model: &Model, path: &Path) -> Result<(), Ending> {
        if self.model().is_some_and(|known| known.id == model.id) || !self.value.is_object() {
            return Ok(());
        }
        self.value["model"] = json!({ "modelId": model.id, "displayName": model.display_name });
        self.value["hasChangedDefaultModel"] = json!(true);
        self.save(path)
    }

    /// Two agents that do this at once use the same temporary name, and one of them fails.
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

/// What stderr says when the file was renamed away by another run.
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

/// Words an error as node does.
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
mod tests {
    use super::*;

    #[test]
    fn the_first_run_writes_the_defaults_and_a_model_is_remembered() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("config/cli-config.json");
        let mut settings = Settings::load(&path).unwrap();
        assert!(settings.model().is_none());
        settings.remember_model(&models::find("gpt-5-mini").unwrap(), &path).unwrap();
        let again = Settings::load(&path).unwrap();
        assert_eq!(again.model().unwrap().display_name, "GPT-5 Mini");
        assert_eq!(again.value["permissions"]["allow"], json!(["Shell(ls)"]));
        assert_eq!(again.value["hasChangedDefaultModel"], json!(true));
        assert!(!path.with_extension("json.tmp").exists());
    }

    #[test]
    fn a_lost_race_is_worded_as_node_words_it() {
        let ending = lost_race(Path::new("/c/cli-config.json"));
        assert_eq!(ending.exit_code, 1);
        assert_eq!(
            ending.stderr,
            "Error: ENOENT: no such file or directory, rename '/c/cli-config.json.tmp' -> '/c/cli-config.json'\n"
        );
    }

    #[test]
    fn a_file_that_cannot_be_renamed_names_the_reason() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("cli-config.json");
        fs::create_dir_all(path.join("in the way")).unwrap();
        let ending = Settings { value: defaults() }.save(&path).unwrap_err();
        assert!(ending.stderr.starts_with("Error: EISDIR: is a directory, rename '"), "{ending:?}");
    }

    #[test]
    fn damaged_settings_count_as_the_defaults() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("cli-config.json");
        fs::write(&path, "{ not json").unwrap();
        assert!(Settings::load(&path).unwrap().model().is_none());
    }
}
