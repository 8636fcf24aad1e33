//! The lines of a script: `word[options] rest`, and the text below a line that ends in `<<END`.

use super::{Problem, ScriptError};

/// One order as written.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) number: usize,
    pub(super) word: String,
    pub(super) options: Vec<(String, String)>,
    pub(super) rest: String,
    /// The lines up to `END`.
    pub(super) body: Option<String>,
}

impl Line {
    /// Returns the text on the line, or else the text below it.
    pub(super) fn text(&self, what: &str) -> Result<String, Problem> {
        match &self.body {
            Some(body) if self.rest.is_empty() => Ok(body.clone()),
            _ => self.argument(what),
        }
    }

    /// Returns the text on the line. No other text may be below it.
    pub(super) fn argument(&self, what: &str) -> Result<String, Problem> {
        match (self.rest.as_str(), &self.body) {
            ("", _) => Err(self.needs(what)),
            (_, Some(_)) => Err(format!(
                "`{}` has text on its line and more below it; put all of it below",
                self.word
            )),
            (rest, None) => Ok(rest.to_owned()),
        }
    }

    pub(super) fn body(&self, what: &str) -> Result<&str, Problem> {
        self.body.as_deref().ok_or_else(|| self.needs(what))
    }

    pub(super) fn needs(&self, what: &str) -> Problem {
        format!("`{}` needs {what}", self.word)
    }

    pub(super) fn nothing_more(&self) -> Result<(), Problem> {
        if self.rest.is_empty() && self.body.is_none() && self.options.is_empty() {
            return Ok(());
        }
        Err(format!("`{}` takes nothing after it", self.word))
    }

    pub(super) fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(option, _)| option == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn has_no_options_but(&self, known: &[&str]) -> Result<(), Problem> {
        match self.options.iter().find(|(option, _)| !known.contains(&option.as_str())) {
            Some((option, _)) => Err(format!("`{}` takes no option `{option}`", self.word)),
            None => Ok(()),
        }
    }
}

pub(super) struct Lines<'a> {
    lines: std::iter::Enumerate<std::str::Lines<'a>>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { lines: text.lines().enumerate() }
    }

    /// Returns the next line that is neither empty nor a comment.
    pub(super) fn next_order(&mut self) -> Result<Option<Line>, ScriptError> {
        let is_order = |text: &str| !text.is_empty() && !text.starts_with('#');
        let Some((index, text)) = self.lines.find(|(_, text)| is_order(text.trim())) else {
            return Ok(None);
        };
        let number = index + 1;
        let at = |problem| ScriptError { line: number, problem };
        let (word, options, rest) = split_head(text.trim()).map_err(at)?;
        let mut line = Line { number, word, options, rest, body: None };
        if let Some((before, tag)) = here_document(&line.rest) {
            line.body = Some(self.body(tag).map_err(at)?);
            line.rest = before.to_owned();
        }
        Ok(Some(line))
    }

    fn body(&mut self, tag: &str) -> Result<String, Problem> {
        let mut body = Vec::new();
        for (_, text) in self.lines.by_ref() {
            if text.trim() == tag {
                return Ok(body.join("\n"));
            }
            body.push(text);
        }
        Err(format!("the line `{tag}` that ends the text is missing"))
    }
}

/// Splits `notes.txt <<END` into the text before and the tag.
fn here_document(rest: &str) -> Option<(&str, &str)> {
    let (before, tag) = rest.rsplit_once("<<")?;
    let is_tag = !tag.is_empty() && tag.bytes().all(|byte| byte.is_ascii_uppercase());
    (is_tag && (before.is_empty() || before.ends_with(' '))).then(|| (before.trim(), tag))
}

type Head = (String, Vec<(String, String)>, String);

/// Splits `word[name=value name="value" flag] rest`.
fn split_head(text: &str) -> Result<Head, Problem> {
    let word_end = text.find(|character: char| character == '[' || character.is_whitespace());
    let (word, after) = text.split_at(word_end.unwrap_or(text.len()));
    let Some(inside) = after.strip_prefix('[') else {
        return Ok((word.to_owned(), Vec::new(), after.trim().to_owned()));
    };
    let mut options = Vec::new();
    let mut left = inside.trim_start();
    loop {
        if let Some(rest) = left.strip_prefix(']') {
            return Ok((word.to_owned(), options, rest.trim().to_owned()));
        }
        let open = || format!("no `]` closes the options of `{word}`");
        let name_end = left.find(['=', ' ', ']']).ok_or_else(open)?;
        let (name, after_name) = left.split_at(name_end);
        let (value, after_value) = match after_name.strip_prefix("=\"") {
            Some(quoted) => quoted.split_once('"').ok_or_else(open)?,
            None => match after_name.strip_prefix('=') {
                Some(bare) => bare.split_at(bare.find([' ', ']']).ok_or_else(open)?),
                None => ("", after_name),
            },
        };
        options.push((name.to_owned(), value.to_owned()));
        left = after_value.trim_start();
    }
}
