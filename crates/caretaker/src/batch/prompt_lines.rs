//! The prompt file: each line is a JSON object, a JSON string, or plain text.

use std::fmt;

use run_protocol::RunRequest;

/// A file with more lines is probably the wrong file.
pub(crate) const MOST_RUNS: usize = 10_000;
/// An error names at most this many bad lines.
const MOST_TOLD: usize = 10;

/// A line's request. It always has a prompt.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line {
    /// Counted from one.
    pub(crate) number: usize,
    pub(crate) request: RunRequest,
}

/// The bad lines, and what is wrong with each.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct BadLines(pub(crate) Vec<(usize, String)>);

impl fmt::Display for BadLines {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told: Vec<String> = self
            .0
            .iter()
            .take(MOST_TOLD)
            .map(|(line, problem)| format!("line {line}: {problem}"))
            .collect();
        formatter.write_str(&told.join("; "))?;
        match self.0.len().saturating_sub(MOST_TOLD) {
            0 => Ok(()),
            more => write!(formatter, "; and {more} more"),
        }
    }
}

impl std::error::Error for BadLines {}

/// Reads all lines, and skips empty ones.
pub(crate) fn parse(text: &[u8]) -> Result<Vec<Line>, BadLines> {
    let mut lines = Vec::new();
    let mut bad = BadLines::default();
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let number = index + 1;
        match parse_line(line) {
            Ok(None) => {}
            Ok(Some(request)) => lines.push(Line { number, request }),
            Err(problem) => bad.0.push((number, problem)),
        }
    }
    if bad.0.is_empty() { Ok(lines) } else { Err(bad) }
}

fn parse_line(line: &[u8]) -> Result<Option<RunRequest>, String> {
    let line = std::str::from_utf8(line)
        .map_err(|error| format!("not UTF-8, from byte {}", error.valid_up_to()))?
        .trim();
    let of_words = |prompt: String| RunRequest { prompt: Some(prompt), ..RunRequest::default() };
    let explained = |error: &dyn fmt::Display| {
        // The parser saw only this line, so its line number is wrong. The caller knows the right one.
        let text = error.to_string();
        text.split(" at line 1").next().unwrap_or(&text).to_owned()
    };
    let request = match line.as_bytes().first() {
        None => return Ok(None),
        Some(b'{') => RunRequest::from_json(line.as_bytes()).map_err(|error| explained(&error))?,
        Some(b'"') => of_words(serde_json::from_str(line).map_err(|error| explained(&error))?),
        _ if serde_json::from_str::<serde::de::IgnoredAny>(line).is_ok() => {
            return Err("neither an object, nor a string, nor plain words".to_owned());
        }
        Some(b'[') => return Err("a list is not a prompt".to_owned()),
        Some(_) => of_words(line.to_owned()),
    };
    match request.prompt.as_deref() {
        None => Err("missing field `prompt`".to_owned()),
        Some(prompt) if prompt.trim().is_empty() => Err("the prompt is empty".to_owned()),
        Some(prompt) if prompt.contains('\0') => Err("the prompt has a NUL character".to_owned()),
        Some(_) => Ok(Some(request)),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    fn prompts(text: &str) -> Vec<(usize, String)> {
        let lines = parse(text.as_bytes()).unwrap().into_iter();
        lines.map(|it| (it.number, it.request.prompt.unwrap())).collect()
    }

    #[test]
    fn objects_strings_and_plain_words_are_prompts_and_keep_their_line() {
        let text = "{\"prompt\":\"one\",\"model\":\"m\"}\n\n\"two\\nlines\"\r\nfix the [parser]\n";
        let expected = [(1, "one"), (3, "two\nlines"), (4, "fix the [parser]")];
        assert_eq!(prompts(text), expected.map(|(line, prompt)| (line, prompt.to_owned())));
        let lines = parse(text.as_bytes()).unwrap();
        assert_eq!(lines[0].request.model.as_deref(), Some("m"));
    }

    #[test]
    fn every_bad_line_is_reported_with_its_number() {
        let text =
            b"{\"prompt\":\"fine\"}\n{\"prompt\":\"x\",\"modell\":\"m\"}\n{\"model\":\"m\"}\n\
            {\"prompt\":\nnull\n[1,\n\"open\n{\"prompt\":\" \"}\ncaf\xe9\n";
        let bad = parse(text).unwrap_err();
        let numbers: Vec<usize> = bad.0.iter().map(|(line, _)| *line).collect();
        assert_eq!(numbers, [2, 3, 4, 5, 6, 7, 8, 9]);
        let told = bad.to_string();
        for part in ["line 2: unknown field `modell`", "missing field `prompt`", "not UTF-8"] {
            assert!(told.contains(part), "{part}: {told}");
        }
        assert!(!told.contains("at line 1"), "{told}");
    }

    #[test]
    fn only_some_of_very_many_bad_lines_are_reported() {
        let bad = parse("42\n".repeat(50).as_bytes()).unwrap_err();
        assert!(bad.to_string().ends_with("; and 40 more"), "{bad}");
    }

    proptest! {
        /// Each line that is not empty becomes a prompt or is reported as bad.
        #[test]
        fn no_line_is_lost(lines in proptest::collection::vec("[ -~]{0,20}", 0..20)) {
            let n_full = lines.iter().filter(|line| !line.trim().is_empty()).count();
            match parse(lines.join("\n").as_bytes()) {
                Ok(read) => prop_assert_eq!(read.len(), n_full),
                Err(bad) => prop_assert!(!bad.0.is_empty() && bad.0.len() <= n_full),
            }
        }
    }
}
