//! `--secret NAME=env:VARIABLE` and `--secret NAME=file:PATH`: a value for the agent that is written down nowhere.
//!
//! **Invariant:** no error of this module, and no `Debug` output, holds a value, nor what was typed in its place.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use run_protocol::{ExitCode, RunSpec, is_variable_name, reserved};

use crate::command_error::CommandError;
use crate::host::environment::Environment;
use crate::words::talk::note;

/// Shorter values would occur by chance in what the agent prints, and are not redacted.
const SHORTEST: usize = 8;
/// The kernel takes twice as much for one variable.
const LONGEST: u64 = 64 * 1024;
/// Of all together; the kernel takes a few times more.
const MOST_BYTES: usize = 256 * 1024;

/// Beyond what no variable may be: names whose values are no secrets, and would be replaced wherever they occur.
const NO_SECRETS: [&str; 3] = ["LANG", "TERM", "TMPDIR"];
const NO_SECRET_BEGINNINGS: [&str; 4] = ["GIT_", "CURSOR_", "AGENT_CLI_", "LC_"];
/// The variables that an agent logs in with. They may come by this way too; any other secret has a name of the user's.
pub const LOGIN_KEYS: [&str; 2] = ["CURSOR_API_KEY", "CURSOR_AUTH_TOKEN"];

/// A secret with its name.
#[derive(Clone, PartialEq, Eq)]
pub struct NamedSecret {
    pub name: String,
    pub value: String,
}

impl fmt::Debug for NamedSecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "NamedSecret({})", self.name)
    }
}

/// Reads all secrets that were named.
pub fn read_all(
    flags: &[String],
    environment: &Environment,
) -> Result<Vec<NamedSecret>, CommandError> {
    let mut names = BTreeSet::new();
    let mut secrets = Vec::new();
    let mut n_bytes = 0;
    for flag in flags {
        let secret = read(flag, environment)?;
        if !names.insert(secret.name.clone()) {
            return Err(usage(format!("the secret `{}` is given twice", secret.name))
                .hint("give each name once"));
        }
        n_bytes += secret.value.len();
        secrets.push(secret);
    }
    if n_bytes > MOST_BYTES {
        let what = format!("the secrets have {n_bytes} bytes, more than {MOST_BYTES} together");
        return Err(usage(what).hint("give the agent the path of a file with --expose instead"));
    }
    Ok(secrets)
}

/// Tells which secrets the run before had and this one has not: they are written down nowhere, so they must be given again.
pub(crate) fn remind(before: &RunSpec, flags: &[String]) {
    let is_given =
        |name: &str| flags.iter().any(|flag| flag.split_once('=').is_some_and(|it| it.0 == name));
    for name in before.secrets.iter().filter(|name| !is_given(name)) {
        note(&format!(
            "the last run had the secret `{name}`; this one has it only if you give it again: --secret {name}=…"
        ));
    }
}

fn read(flag: &str, environment: &Environment) -> Result<NamedSecret, CommandError> {
    // What follows the name may be the secret itself, typed where its source belongs: it is not repeated.
    let form = || {
        usage("a secret is written NAME=env:VARIABLE or NAME=file:PATH")
            .hint("a value does not belong on a command line, where everybody can read it: put it into a file")
    };
    let (name, source) = flag.split_once('=').ok_or_else(form)?;
    if !is_variable_name(name) {
        return Err(form());
    }
    check_name(name)?;
    let value = match (source.strip_prefix("env:"), source.strip_prefix("file:")) {
        (Some(variable), _) => of_variable(name, variable, environment)?,
        (_, Some(path)) if !path.is_empty() => {
            of_file(name, &environment.absolute(Path::new(path)))?
        }
        _ => return Err(form()),
    };
    check_value(name, &value)?;
    Ok(NamedSecret { name: name.to_owned(), value })
}

fn check_name(name: &str) -> Result<(), CommandError> {
    if LOGIN_KEYS.contains(&name) {
        return Ok(());
    }
    if let Some(reserved) = reserved(name) {
        return Err(
            usage(format!("`{name}` cannot be a secret: it {reserved}")).hint(reserved.hint())
        );
    }
    let is_none = NO_SECRETS.contains(&name)
        || NO_SECRET_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning));
    match is_none {
        true => {
            Err(usage(format!("`{name}` cannot be a secret: it would move or break the agent"))
                .hint("choose another name"))
        }
        false => Ok(()),
    }
}

fn of_variable(
    name: &str,
    variable: &str,
    environment: &Environment,
) -> Result<String, CommandError> {
    if !is_variable_name(variable) {
        return Err(usage(format!("the secret `{name}` does not name a variable after `env:`"))
            .hint(format!("--secret {name}=env:VARIABLE")));
    }
    let value = environment.variable(variable).ok_or_else(|| {
        let what = format!("the variable `{variable}` of the secret `{name}` is not set, or empty");
        usage(what).hint(format!("export {variable}, or use --secret {name}=file:PATH"))
    })?;
    value.to_str().map(ToOwned::to_owned).ok_or_else(|| not_text(name))
}

fn of_file(name: &str, path: &Path) -> Result<String, CommandError> {
    let unreadable = |code: ExitCode, error: io::Error| {
        let what = format!("the secret `{name}` cannot be read from `{}`", path.display());
        CommandError::new(code, what).because(error).hint("name a file that you may read")
    };
    let found = std::fs::metadata(path).map_err(|error| unreadable(ExitCode::NotFound, error))?;
    // Looked at before it is opened: a FIFO would make us wait.
    if !found.is_file() {
        let what =
            format!("the secret `{name}` is to come from `{}`, which is no file", path.display());
        return Err(usage(what).hint("name a file that holds the value and nothing else"));
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LONGEST + 2).read_to_end(&mut bytes))
        .map_err(|error| unreadable(ExitCode::Failed, error))?;
    let mut value = String::from_utf8(bytes).map_err(|_| not_text(name))?;
    // Editors and `echo` end a file with a newline that is no part of the secret.
    if value.ends_with('\n') {
        value.pop();
    }
    if value.ends_with('\r') {
        value.pop();
    }
    Ok(value)
}

fn check_value(name: &str, value: &str) -> Result<(), CommandError> {
    if value.contains('\0') {
        return Err(usage(format!("the secret `{name}` contains a NUL byte"))
            .hint("a variable cannot hold one: encode the value"));
    }
    if value.len() as u64 > LONGEST {
        let what = format!("the secret `{name}` is longer than {LONGEST} bytes");
        return Err(usage(what).hint("give the agent the path of a file with --expose instead"));
    }
    if value.trim().len() < SHORTEST {
        let what = format!(
            "the secret `{name}` has less than {SHORTEST} characters, so it cannot be kept out of what is written down"
        );
        return Err(usage(what).hint(format!("if it is no secret: --env {name}=…")));
    }
    Ok(())
}

fn not_text(name: &str) -> CommandError {
    usage(format!("the secret `{name}` is not UTF-8")).hint("encode it, for instance with base64")
}

fn usage(what: impl Into<String>) -> CommandError {
    CommandError::new(ExitCode::Usage, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::environment::tests::environment_of;

    fn secrets_of(flags: &[&str]) -> Result<Vec<NamedSecret>, CommandError> {
        let environment = environment_of(&[
            ("HOME", Path::new("/home/ada")),
            ("TOKEN", Path::new("token-0123456789")),
            ("PIN", Path::new("1234")),
        ]);
        let flags: Vec<String> = flags.iter().map(ToString::to_string).collect();
        read_all(&flags, &environment)
    }

    #[test]
    fn a_secret_comes_from_a_variable_or_from_a_file_without_its_last_newline() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("key");
        std::fs::write(&file, "first line\nsecond line\n").unwrap();
        let from_file = format!("KEY=file:{}", file.display());
        let secrets = secrets_of(&["NPM_TOKEN=env:TOKEN", &from_file]).unwrap();
        let secrets: Vec<(&str, &str)> =
            secrets.iter().map(|secret| (secret.name.as_str(), secret.value.as_str())).collect();
        assert_eq!(
            secrets,
            [("NPM_TOKEN", "token-0123456789"), ("KEY", "first line\nsecond line")]
        );
    }

    #[test]
    fn what_cannot_be_a_secret_is_refused_and_never_repeated() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &[u8]| {
            std::fs::write(directory.path().join(name), content).unwrap();
            format!("X=file:{}", directory.path().join(name).display())
        };
        let nul = write("nul", b"0123456789\0");
        let odd = write("odd", b"0123456789\xff");
        let long = write("long", &vec![b'x'; 64 * 1024 + 1]);
        let empty = write("empty", b"\n");
        let missing = format!("X=file:{}", directory.path().join("missing").display());
        let no_file = format!("X=file:{}", directory.path().display());
        for (flags, part) in [
            (&["X"][..], "NAME=env:VARIABLE"),
            (&["X=hunter2hunter2"], "NAME=env:VARIABLE"),
            (&["X=file:"], "NAME=env:VARIABLE"),
            (&["1X=env:TOKEN"], "NAME=env:VARIABLE"),
            (&["A B=env:TOKEN"], "NAME=env:VARIABLE"),
            (&["X=env:NOT_SET"], "`NOT_SET` of the secret `X` is not set"),
            (&["X=env:"], "after `env:`"),
            (&["X=env:PIN"], "less than 8"),
            (&["HOME=env:TOKEN"], "is set by caretaker"),
            (&["LD_PRELOAD=env:TOKEN"], "before it starts"),
            (&["NODE_OPTIONS=env:TOKEN"], "before it starts"),
            (&["CURSOR_CONFIG_DIR=env:TOKEN"], "is set by caretaker"),
            (
                &["HTTPS_PROXY=env:TOKEN"],
                "`HTTPS_PROXY` cannot be a secret: it is set by caretaker",
            ),
            (&["no_proxy=env:TOKEN"], "leads programs to the hosts"),
            (&["GIT_DIR=env:TOKEN"], "would move or break the agent"),
            (&["X=env:TOKEN", "X=env:TOKEN"], "given twice"),
            (&[&missing], "cannot be read"),
            (&[&no_file], "is no file"),
            (&[&nul], "NUL"),
            (&[&odd], "not UTF-8"),
            (&[&long], "longer than"),
            (&[&empty], "less than 8"),
        ] {
            let error = secrets_of(flags).unwrap_err();
            let text = error.text();
            assert!(text.contains(part) && text.contains("hint:"), "{flags:?}: {text}");
            assert!(!text.contains("hunter2") && !text.contains("0123456789"), "{text}");
        }
    }

    #[test]
    fn the_agents_own_key_may_come_from_a_file() {
        assert_eq!(secrets_of(&["CURSOR_API_KEY=env:TOKEN"]).unwrap()[0].name, "CURSOR_API_KEY");
    }

    #[test]
    fn a_secret_is_not_printed_by_accident() {
        let shown = format!("{:?}", secrets_of(&["X=env:TOKEN"]).unwrap());
        assert_eq!(shown, "[NamedSecret(X)]");
    }
}
