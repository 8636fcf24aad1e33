//! The prompt: read from the command line, a file or a pipe, and checked.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use admission::command_error::CommandError;

use crate::surroundings::Audience;
use run_protocol::{ExitCode, LONGEST_PROMPT, PromptCheck};

/// Where the prompt comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PromptSource<'a> {
    Words(&'a OsStr),
    File(&'a Path),
    Stdin,
}

impl<'a> PromptSource<'a> {
    /// Decides where to read the prompt. It reads a pipe only if the user named no other source: with an inherited
    /// stdin that no process writes to, the command would hang.
    pub(crate) fn of(
        words: Option<&'a OsStr>,
        file: Option<&'a Path>,
        stdin: Audience,
    ) -> Result<Self, CommandError> {
        match (words, file) {
            (Some(words), _) if words == "-" => Ok(Self::Stdin),
            (Some(words), _) => Ok(Self::Words(words)),
            (None, Some(file)) if file == Path::new("-") => Ok(Self::Stdin),
            (None, Some(file)) => Ok(Self::File(file)),
            (None, None) if stdin == Audience::Program => Ok(Self::Stdin),
            (None, None) => Err(CommandError::new(ExitCode::Usage, "no prompt given")
                .hint("caretaker run \"what to do\", or -f FILE, or a pipe")),
        }
    }

    /// Reads a file with many prompts, without checking them.
    pub(crate) fn read_lines(self) -> Result<Vec<u8>, CommandError> {
        let text = self.bytes()?;
        if text.len() as u64 > LONGEST_PROMPT {
            let what = format!("the prompts together exceed {} MiB", LONGEST_PROMPT >> 20);
            return Err(CommandError::new(ExitCode::Usage, what));
        }
        Ok(text)
    }

    /// Reads and checks one prompt.
    pub(crate) fn read(self) -> Result<Vec<u8>, CommandError> {
        let prompt = self.bytes()?;
        check(&prompt)?;
        Ok(prompt)
    }

    fn bytes(self) -> Result<Vec<u8>, CommandError> {
        match self {
            Self::Words(words) => Ok(words.as_bytes().to_vec()),
            Self::Stdin => bounded(&mut io::stdin().lock())
                .map_err(|error| cannot_read("stdin", error, ExitCode::Failed)),
            Self::File(path) => {
                let name = format!("`{}`", path.display());
                let code = |error: &io::Error| match error.kind() {
                    io::ErrorKind::NotFound => ExitCode::NotFound,
                    _ => ExitCode::Failed,
                };
                File::open(path).and_then(|mut file| bounded(&mut file)).map_err(|error| {
                    let code = code(&error);
                    cannot_read(&name, error, code)
                })
            }
        }
    }
}

fn cannot_read(what: &str, error: io::Error, code: ExitCode) -> CommandError {
    CommandError::new(code, format!("cannot read the prompt from {what}")).because(error)
}

fn bounded(from: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut prompt = Vec::new();
    from.take(LONGEST_PROMPT + 1).read_to_end(&mut prompt)?;
    Ok(prompt)
}

/// Refuses an invalid prompt.
pub(crate) fn check(prompt: &[u8]) -> Result<(), CommandError> {
    Ok(PromptCheck::whole(prompt)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source<'a>(
        words: Option<&'a str>,
        file: Option<&'a str>,
        stdin: Audience,
    ) -> Result<PromptSource<'a>, ExitCode> {
        PromptSource::of(words.map(OsStr::new), file.map(Path::new), stdin)
            .map_err(|error| error.exit_code())
    }

    #[test]
    fn a_pipe_is_read_only_if_no_other_source_is_named() {
        use Audience::{Person, Program};
        assert_eq!(source(Some("hi"), None, Program), Ok(PromptSource::Words(OsStr::new("hi"))));
        assert_eq!(source(Some("-"), None, Person), Ok(PromptSource::Stdin));
        assert_eq!(source(None, Some("-"), Person), Ok(PromptSource::Stdin));
        assert_eq!(source(None, Some("p.md"), Program), Ok(PromptSource::File(Path::new("p.md"))));
        assert_eq!(source(None, None, Program), Ok(PromptSource::Stdin));
        assert_eq!(source(None, None, Person), Err(ExitCode::Usage));
    }

    #[test]
    fn a_prompt_must_be_utf8_without_nul_and_not_blank() {
        for (prompt, part) in [
            (&b""[..], "empty"),
            (b" \n\t", "empty"),
            (b"a\0b", "NUL character, at byte 1"),
            (b"caf\xe9", "not UTF-8, from byte 3"),
        ] {
            let error = check(prompt).unwrap_err();
            assert_eq!(error.exit_code(), ExitCode::Usage);
            assert!(error.text().contains(part), "{}", error.text());
        }
        assert!(check("größer\n".as_bytes()).is_ok());
    }

    #[test]
    fn a_file_of_ten_megabytes_is_read_in_full_and_a_missing_one_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("long prompt");
        std::fs::write(&path, "x".repeat(10 << 20)).unwrap();
        assert_eq!(PromptSource::File(&path).read().unwrap().len(), 10 << 20);
        let missing = PromptSource::File(&directory.path().join("none")).read().unwrap_err();
        assert_eq!(missing.exit_code(), ExitCode::NotFound);
    }
}
