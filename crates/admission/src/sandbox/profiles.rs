//! Finds a sandbox profile by name: the user's own, else a built-in one.

use std::fs;
use std::io;
use std::path::PathBuf;

use run_protocol::{ExitCode, RunSpec, ToolApproval};
use sandbox_plan::{Confinement, Profile, builtin_profiles};

use crate::command_error::{CommandError, OrFail};
use crate::host::places::Places;
use crate::words::talk::say;

/// A profile, and the text that it was read from.
#[derive(Debug)]
pub struct FoundProfile {
    pub profile: Profile,
    pub text: String,
    /// Its file; `None` for a built-in profile.
    pub file: Option<PathBuf>,
    /// True if this is the text of the earlier run, because the profile allows more now.
    pub is_as_before: bool,
}

/// The profile without a sandbox.
pub const OFF: &str = "off";

/// The source of a profile's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedBy {
    /// The user, for this run.
    CommandLine,
    Configuration,
    /// The run that this run continues.
    EarlierRun,
}

/// The profile of an earlier run, with its old text.
pub(crate) fn as_it_was(before: &RunSpec) -> Result<FoundProfile, CommandError> {
    let text = before.profile_text.clone();
    let profile = parsed(&before.profile, &text)?;
    Ok(FoundProfile { profile, text, file: None, is_as_before: true })
}

fn parsed(name: &str, text: &str) -> Result<Profile, CommandError> {
    Profile::parse(name, text)
        .or_fail_as(ExitCode::Usage, || format!("the profile `{name}` cannot be used"))
}

/// Finds a profile. Only the command line can choose the profile without a sandbox, by its name `off`: neither the
/// configuration nor a user's profile can remove the sandbox.
pub fn find(places: &Places, name: &str, named_by: NamedBy) -> Result<FoundProfile, CommandError> {
    let Some((text, file)) = text_of(places, name)? else {
        return Err(unknown(places, name, named_by));
    };
    let profile = parsed(name, &text)?;
    let refused =
        |what: String, hint: &str| Err(CommandError::new(ExitCode::Usage, what).hint(hint));
    match (profile.confinement(), &file, named_by) {
        (Confinement::Bubblewrap, Some(file), _) if name == OFF => refused(
            format!("`{}` has the name of the profile without a sandbox", file.display()),
            "give it another name",
        ),
        // A user who sees `strict` in `ps` must be able to rely on it.
        (Confinement::Bubblewrap, Some(file), _)
            if is_built_in(name) && profile.extends() != Some(name) =>
        {
            let what = format!(
                "`{}` has the name of a built-in profile and does not extend it",
                file.display()
            );
            refused(what, &format!("begin it with `extends = \"{name}\"`, or give it another name"))
        }
        (Confinement::Bubblewrap, ..) | (Confinement::None, None, NamedBy::CommandLine) => {
            Ok(FoundProfile { profile, text, file, is_as_before: false })
        }
        (Confinement::None, None, NamedBy::Configuration) => refused(
            format!(
                "the configuration names the profile `{name}`, but only the command line can remove the sandbox"
            ),
            "for one run without a sandbox: --sandbox off",
        ),
        (Confinement::None, None, NamedBy::EarlierRun) => refused(
            "the last run had no sandbox; to continue without a sandbox: --sandbox off".to_owned(),
            "or continue in a sandbox: --profile default",
        ),
        (Confinement::None, Some(file), _) => refused(
            format!("the profile `{}` has no sandbox", file.display()),
            "extend `default` or `strict`; for one run without a sandbox: --sandbox off",
        ),
    }
}

fn is_built_in(name: &str) -> bool {
    builtin_profiles().iter().any(|(builtin, _)| *builtin == name)
}

/// The text and its file; `None` if there is no such profile.
type ProfileText = Option<(String, Option<PathBuf>)>;

fn text_of(places: &Places, name: &str) -> Result<ProfileText, CommandError> {
    let is_name = !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if !is_name {
        let what = format!("`{name}` cannot be the name of a profile");
        return Err(CommandError::new(ExitCode::Usage, what)
            .hint("a profile's name may only contain letters, digits, `_` and `-`"));
    }
    let file = places.config.join("profiles").join(format!("{name}.toml"));
    match fs::read_to_string(&file) {
        Ok(text) => return Ok(Some((text, Some(file)))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => {
            let what = format!("the profile `{}` cannot be read", file.display());
            return Err(CommandError::new(ExitCode::Failed, what).because(error));
        }
    }
    let builtin = builtin_profiles().iter().find(|(builtin, _)| *builtin == name);
    Ok(builtin.map(|(_, text)| ((*text).to_owned(), None)))
}

fn unknown(places: &Places, name: &str, named_by: NamedBy) -> CommandError {
    let builtin: Vec<&str> = builtin_profiles().iter().map(|(name, _)| *name).collect();
    let known = format!(
        "built in: {}; your own are read from {}",
        builtin.join(", "),
        places.config.join("profiles").display()
    );
    match named_by {
        NamedBy::CommandLine | NamedBy::Configuration => {
            CommandError::new(ExitCode::Usage, format!("there is no profile `{name}`")).hint(known)
        }
        NamedBy::EarlierRun => {
            let what = format!("the profile `{name}` of this session's last run no longer exists");
            CommandError::new(ExitCode::Usage, what).hint(format!(
                "choose another with --profile NAME, and --widen profile if it allows more; {known}"
            ))
        }
    }
}

/// Warns if a run has no sandbox.
pub fn warn_of_no_sandbox(spec: &RunSpec) {
    if spec.profile != OFF {
        return;
    }
    let tools = match spec.tool_approval {
        ToolApproval::Force => " without asking",
        ToolApproval::AllowList => "",
    };
    say(&format!(
        "warning: no sandbox: the agent may do everything that you may do{tools}, with your files, keys and network"
    ));
}

#[cfg(test)]
#[path = "profiles_tests.rs"]
mod tests;
