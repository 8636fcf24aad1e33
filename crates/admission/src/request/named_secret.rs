//! `--secret NAME=env:VARIABLE` and `--secret NAME=file:PATH`: a value for the agent that is never written to disk.
//!
//! **Invariant:** no error from this module, and no `Debug` output, contains a value, or text that the user typed
//! instead of a source.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use run_protocol::{ExitCode, RunSpec, is_variable_name, reserved};

use crate::command_error::CommandError;
use crate::host::environment::Environment;
use crate::words::talk::Remark;

/// Shorter values would occur by chance in the agent's output, so they cannot be redacted.
const SHORTEST: usize = 8;
/// The kernel allows twice as much for one variable.
const LONGEST: u64 = 64 * 1024;
/// The limit for all secrets together; the kernel allows a few times more.
const MOST_BYTES: usize = 256 * 1024;

/// More variables that cannot be secrets: redaction would replace their values everywhere.
const NO_SECRETS: [&str; 3] = ["LANG", "TERM", "TMPDIR"];
const NO_SECRET_BEGINNINGS: [&str; 4] = ["GIT_", "CURSOR_", "AGENT_CLI_", "LC_"];
/// The variables that an agent logs in with. A user may also give them with `--secret`.
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

/// Reads all secrets of a request.
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
        let what = format!("the secrets have {n_bytes} bytes in total, more than {MOST_BYTES}");
        return Err(usage(what).hint("give the agent the path of a file with --expose instead"));
    }
    Ok(secrets)
}

/// A note for each secret of the earlier run that the user did not give again. Its value is not on disk.
pub(crate) fn reminders(before: &RunSpec, given: &[NamedSecret]) -> impl Iterator<Item = Remark> {
    let is_given = |name: &str| given.iter().any(|secret| secret.name == name);
    before.secrets.iter().filter(move |name| !is_given(name)).map(|name| {
        Remark::Note(format!(
            "the last run had the secret `{name}`; to give it to this run too: --secret {name}=…"
        ))
    })
}

fn read(flag: &str, environment: &Environment) -> Result<NamedSecret, CommandError> {
    // The user may have typed the secret itself instead of its source: do not repeat it.
    let form = || {
        usage("a secret is written NAME=env:VARIABLE or NAME=file:PATH")
            .hint("every user of the machine can read a command line: put the value into a file")
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
        true => Err(usage(format!("`{name}` cannot be a secret: it would break the agent"))
            .hint("choose another name")),
        false => Ok(()),
    }
}

fn of_variable(
    name: &str,
    variable: &str,
    environment: &Environment,
) -> Result<String, CommandError> {
    if !is_variable_name(variable) {
        return Err(usage(format!("the secret `{name}` needs a variable after `env:`"))
            .hint(format!("--secret {name}=env:VARIABLE")));
    }
    let value = environment.variable(variable).ok_or_else(|| {
        let what =
            format!("the variable `{variable}` for the secret `{name}` is not set, or empty");
        usage(what).hint(format!("export {variable}, or use --secret {name}=file:PATH"))
    })?;
    value.to_str().map(ToOwned::to_owned).ok_or_else(|| not_text(name))
}

fn of_file(name: &str, path: &Path) -> Result<String, CommandError> {
    let unreadable = |code: ExitCode, error: io::Error| {
        let what = format!("the secret `{name}` cannot be read from `{}`", path.display());
        CommandError::new(code, what)
            .because(error)
            .hint("name a file that you can read")
            .caused_by_request()
    };
    let found = std::fs::metadata(path).map_err(|error| unreadable(ExitCode::NotFound, error))?;
    // Check before opening: opening a FIFO would block.
    if !found.is_file() {
        let what =
            format!("the file `{}` for the secret `{name}` is not a plain file", path.display());
        return Err(usage(what).hint("name a file that contains only the value"));
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LONGEST + 2).read_to_end(&mut bytes))
        .map_err(|error| unreadable(ExitCode::Failed, error))?;
    let mut value = String::from_utf8(bytes).map_err(|_| not_text(name))?;
    // Editors and `echo` add a newline that is not part of the secret.
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
            "the secret `{name}` has fewer than {SHORTEST} characters, so it cannot be redacted in the record"
        );
        return Err(usage(what).hint(format!("if it is not a secret: --env {name}=…")));
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
#[path = "named_secret_tests.rs"]
mod tests;
