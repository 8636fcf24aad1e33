//! Sandbox profiles by name: the user's own, else one that is built in.

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
    /// The file it came from; `None` for one that is built in.
    pub file: Option<PathBuf>,
    /// Whether this is its text from an earlier run, because it allows more by now.
    pub is_as_before: bool,
}

/// The profile without a sandbox.
pub const OFF: &str = "off";

/// Who named a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedBy {
    /// The user, for this run.
    CommandLine,
    Configuration,
    /// The run that is continued.
    EarlierRun,
}

/// The profile of an earlier run, as it was then.
pub(crate) fn as_it_was(before: &RunSpec) -> Result<FoundProfile, CommandError> {
    let text = before.profile_text.clone();
    let profile = parsed(&before.profile, &text)?;
    Ok(FoundProfile { profile, text, file: None, is_as_before: true })
}

fn parsed(name: &str, text: &str) -> Result<Profile, CommandError> {
    Profile::parse(name, text)
        .or_fail_as(ExitCode::Usage, || format!("the profile `{name}` cannot be used"))
}

/// Finds a profile. The one without a sandbox is had only by its name, on the command line: neither a configuration nor a
/// profile of the user's own, whatever it is called, can take the sandbox away.
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
        // Who sees `strict` in `ps` must be able to rely on it.
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
                "the configuration names the profile `{name}`, and no configuration can take the sandbox away"
            ),
            "for one run without a sandbox: --sandbox off",
        ),
        (Confinement::None, None, NamedBy::EarlierRun) => refused(
            "the last run had no sandbox; to continue without one, say `--sandbox off` again"
                .to_owned(),
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

/// The text, and the file that it is in; `None` if there is no such profile.
type ProfileText = Option<(String, Option<PathBuf>)>;

fn text_of(places: &Places, name: &str) -> Result<ProfileText, CommandError> {
    let is_name = !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if !is_name {
        let what = format!("`{name}` cannot be the name of a profile");
        return Err(CommandError::new(ExitCode::Usage, what)
            .hint("a profile's name has letters, digits, `_` and `-`"));
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
            let what =
                format!("the last run of this session had the profile `{name}`, which is gone");
            CommandError::new(ExitCode::Usage, what).hint(format!(
                "choose one with --profile NAME, and with --widen profile if it allows more; {known}"
            ))
        }
    }
}

/// Says it aloud where a run will have no sandbox.
pub fn warn_of_no_sandbox(spec: &RunSpec) {
    if spec.profile != OFF {
        return;
    }
    let tools = match spec.tool_approval {
        ToolApproval::Force => ", unasked",
        ToolApproval::AllowList => "",
    };
    say(&format!(
        "warning: no sandbox: the agent may do whatever you may do{tools}, with your files, your keys and your network"
    ));
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::host::environment::tests::environment_of;

    fn places(config: &Path) -> Places {
        Places::of(&environment_of(&[("HOME", config), ("XDG_CONFIG_HOME", config)]))
    }

    #[test]
    fn a_profile_of_the_users_own_wins_over_one_that_is_built_in() {
        let directory = tempfile::tempdir().unwrap();
        let places = places(directory.path());
        let find = |name: &str| find(&places, name, NamedBy::Configuration);
        assert_eq!(find("default").unwrap().file, None);
        assert_eq!(find("strict").unwrap().file, None);

        let file = places.config.join("profiles/default.toml");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "extends = \"default\"\ndescription = \"mine\"\n").unwrap();
        let found = find("default").unwrap();
        assert_eq!((found.file, found.profile.description()), (Some(file), "mine"));
    }

    #[test]
    fn a_profile_with_the_name_of_one_that_is_built_in_must_extend_it() {
        let directory = tempfile::tempdir().unwrap();
        let places = places(directory.path());
        let file = places.config.join("profiles/strict.toml");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "extends = \"default\"\n").unwrap();
        let error = find(&places, "strict", NamedBy::CommandLine).unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::Usage);
        assert!(error.text().contains("extends = \"strict\""), "{}", error.text());
        fs::write(&file, "extends = \"strict\"\n").unwrap();
        assert_eq!(find(&places, "strict", NamedBy::CommandLine).unwrap().file, Some(file));
    }

    #[test]
    fn what_is_not_known_not_sound_or_not_confining_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let places = places(directory.path());
        let profiles = places.config.join("profiles");
        fs::create_dir_all(&profiles).unwrap();
        fs::write(profiles.join("typo.toml"), "extends = \"default\"\n\nnetwrok = 1\n").unwrap();
        fs::write(profiles.join("mine.toml"), "extends = \"off\"\n").unwrap();
        for (name, part) in [
            ("nope", "there is no profile `nope`"),
            ("../default", "cannot be the name"),
            ("", "cannot be the name"),
            ("off", "no configuration can take the sandbox away"),
            ("mine", "has no sandbox"),
            ("typo", "typo.toml:3"),
        ] {
            let error = find(&places, name, NamedBy::Configuration).unwrap_err();
            assert_eq!(error.exit_code(), ExitCode::Usage, "{name}");
            assert!(error.text().contains(part), "{name}: {}", error.text());
        }
    }

    #[test]
    fn only_the_command_line_takes_the_sandbox_away_and_only_by_the_name_off() {
        let directory = tempfile::tempdir().unwrap();
        let places = places(directory.path());
        let found = find(&places, OFF, NamedBy::CommandLine).unwrap();
        assert_eq!(found.profile.confinement(), Confinement::None);

        let profiles = places.config.join("profiles");
        fs::create_dir_all(&profiles).unwrap();
        fs::write(profiles.join("mine.toml"), "extends = \"off\"\n").unwrap();
        assert!(find(&places, "mine", NamedBy::CommandLine).is_err());
        fs::write(profiles.join("off.toml"), "extends = \"default\"\n").unwrap();
        let error = find(&places, OFF, NamedBy::CommandLine).unwrap_err();
        assert!(error.text().contains("give it another name"), "{}", error.text());
        fs::remove_file(profiles.join("off.toml")).unwrap();
        let error = find(&places, OFF, NamedBy::EarlierRun).unwrap_err();
        assert!(error.text().contains("the last run had no sandbox"), "{}", error.text());
    }
}
