//! A modest reader of shell commands: which programs a command line would run, for `parsingResult` and the allow-list.
//!
//! It knows quoting, operators, redirections, here-documents and substitutions. It does not know `case` and `for`
//! headers or function definitions: those are reported as not parsed, and such a command is never allow-listed.

/// What a command line would run, as far as it can be told without running it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ParsedCommand {
    pub(crate) commands: Vec<SimpleCommand>,
    pub(crate) redirects: Vec<Redirect>,
    pub(crate) has_command_substitution: bool,
    pub(crate) parsing_failed: bool,
}

/// One program with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SimpleCommand {
    /// The name without its quotes.
    pub(crate) name: String,
    pub(crate) args: Vec<Word>,
    pub(crate) full_text: String,
}

/// A word as it is written, quotes included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    /// The name of the kind in Cursor's output: `word`, `number`, `string` …
    pub(crate) kind: &'static str,
    pub(crate) text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Redirect {
    pub(crate) operator: String,
    pub(crate) target: String,
}

impl ParsedCommand {
    pub(crate) fn parse(source: &str) -> Self {
        let mut parser = Parser::new(source, 0);
        parser.run();
        parser.parsed
    }

    pub(crate) fn has_input_redirect(&self) -> bool {
        self.redirects.iter().any(|redirect| redirect.operator.contains('<'))
    }

    pub(crate) fn has_output_redirect(&self) -> bool {
        self.redirects.iter().any(|redirect| redirect.operator.contains('>'))
    }
}

/// Substitutions nested deeper than this are not looked into.
const MAX_DEPTH: usize = 16;

/// Words after which a command may begin.
const PREFIXES: [&str; 13] =
    ["{", "}", "!", "if", "then", "else", "elif", "fi", "while", "until", "do", "done", "time"];

/// Words that begin a construct which is not understood.
const NOT_UNDERSTOOD: [&str; 5] = ["for", "select", "case", "esac", "function"];

struct Parser<'a> {
    source: &'a str,
    at: usize,
    depth: usize,
    parsed: ParsedCommand,
    /// The words of the command being read, with the place where each begins and ends.
    words: Vec<(usize, usize, &'static str)>,
    here_documents: Vec<String>,
}

impl<'a> Parser<'a> {
    fn new(source: &'a str, depth: usize) -> Self {
        let parsed = ParsedCommand::default();
        Self { source, at: 0, depth, parsed, words: Vec::new(), here_documents: Vec::new() }
    }

    fn run(&mut self) {
        while let Some(next) = self.peek() {
            match next {
                b' ' | b'\t' | b'\r' => self.at += 1,
                b'\\' if self.rest().starts_with("\\\n") => self.at += 2,
                b'#' => self.at += self.rest().find('\n').unwrap_or(self.rest().len()),
                b'\n' => {
                    self.at += 1;
                    self.end_command();
                    self.skip_here_documents();
                }
                b'&' if self.rest().starts_with("&>") => self.redirect(),
                b';' | b'&' | b'|' | b'(' | b')' => {
                    self.at += 1;
                    self.end_command();
                }
                b'<' | b'>' if !self.at_process_substitution() => self.redirect(),
                _ => self.word(),
            }
        }
        self.end_command();
    }

    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.source.as_bytes().get(self.at).copied()
    }

    fn at_process_substitution(&self) -> bool {
        self.rest().starts_with("<(") || self.rest().starts_with(">(")
    }

    fn word(&mut self) {
        let (start, end, kind) = self.read_word();
        // `2>file`: the number belongs to the redirection.
        if kind == "number"
            && matches!(self.peek(), Some(b'<' | b'>'))
            && !self.at_process_substitution()
        {
            self.redirect();
        } else {
            self.words.push((start, end, kind));
        }
    }

    fn read_word(&mut self) -> (usize, usize, &'static str) {
        let start = self.at;
        let mut parts: Vec<&'static str> = Vec::new();
        while let Some(next) = self.peek() {
            let part = match next {
                b' ' | b'\t' | b'\r' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' => break,
                b'<' | b'>' if self.at_process_substitution() => {
                    self.substitution(1, "process_substitution")
                }
                b'<' | b'>' => break,
                b'\'' => self.quoted(b'\'', "raw_string"),
                b'"' => self.quoted(b'"', "string"),
                b'`' => self.backticks(),
                b'$' => self.dollar(),
                b'\\' => {
                    self.at += 1;
                    self.skip_character();
                    "word"
                }
                _ => {
                    self.skip_character();
                    "word"
                }
            };
            // A run of plain characters is one part; two quoted strings in a row are two.
            if part != "word" || parts.last() != Some(&"word") {
                parts.push(part);
            }
        }
        let text = &self.source[start..self.at];
        let kind = match parts.as_slice() {
            ["word"] if text.bytes().all(|byte| byte.is_ascii_digit()) => "number",
            [part] => part,
            _ => "concatenation",
        };
        (start, self.at, kind)
    }

    fn skip_character(&mut self) {
        self.at += self.rest().chars().next().map_or(0, char::len_utf8);
    }

    fn quoted(&mut self, quote: u8, kind: &'static str) -> &'static str {
        self.at += 1;
        loop {
            match self.peek() {
                None => {
                    self.parsed.parsing_failed = true;
                    break;
                }
                Some(next) if next == quote => {
                    self.at += 1;
                    break;
                }
                Some(b'\\') if quote == b'"' => {
                    self.at += 1;
                    self.skip_character();
                }
                Some(b'`') if quote == b'"' => {
                    self.backticks();
                }
                Some(b'$') if quote == b'"' => {
                    self.dollar();
                }
                Some(_) => self.skip_character(),
            }
        }
        kind
    }

    fn dollar(&mut self) -> &'static str {
        let rest = self.rest();
        if rest.starts_with("$((") {
            self.at += 1;
            self.closing(b'(', b')');
            "arithmetic_expansion"
        } else if rest.starts_with("$(") {
            self.substitution(1, "command_substitution")
        } else if rest.starts_with("${") {
            self.at += 1;
            let inner = self.closing(b'{', b'}');
            self.look_into_expansion(inner);
            "expansion"
        } else {
            self.at += 1;
            let name = self
                .rest()
                .bytes()
                .take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
                .count();
            self.at += name;
            if name > 0 { "simple_expansion" } else { "word" }
        }
    }

    /// `${name:-$(command)}` runs a command too.
    fn look_into_expansion(&mut self, inner: &'a str) {
        if inner.contains("$(") || inner.contains('`') {
            self.parsed.has_command_substitution = true;
            self.parsed.parsing_failed = true;
        }
    }

    /// Reads `$(…)`, `<(…)` or `>(…)` with `skip` bytes before the bracket.
    fn substitution(&mut self, skip: usize, kind: &'static str) -> &'static str {
        self.at += skip;
        let inner = self.closing(b'(', b')');
        self.look_into(inner);
        kind
    }

    fn backticks(&mut self) -> &'static str {
        self.at += 1;
        let start = self.at;
        while let Some(next) = self.peek() {
            match next {
                b'`' => {
                    let inner = &self.source[start..self.at];
                    self.at += 1;
                    self.look_into(inner);
                    return "command_substitution";
                }
                b'\\' => {
                    self.at += 1;
                    self.skip_character();
                }
                _ => self.skip_character(),
            }
        }
        self.parsed.parsing_failed = true;
        "command_substitution"
    }

    fn look_into(&mut self, inner: &'a str) {
        self.parsed.has_command_substitution = true;
        if self.depth == MAX_DEPTH {
            self.parsed.parsing_failed = true;
            return;
        }
        let mut parser = Parser::new(inner, self.depth + 1);
        parser.run();
        self.parsed.parsing_failed |= parser.parsed.parsing_failed;
        self.parsed.commands.append(&mut parser.parsed.commands);
        self.parsed.redirects.append(&mut parser.parsed.redirects);
    }

    /// Moves behind the bracket that closes the one here and returns what is between them.
    fn closing(&mut self, open: u8, close: u8) -> &'a str {
        let start = self.at + 1;
        let mut depth = 0_usize;
        let mut quote: Option<u8> = None;
        while let Some(next) = self.peek() {
            match (quote, next) {
                (Some(b'\''), b'\'') | (Some(b'"'), b'"') => quote = None,
                (None | Some(b'"'), b'\\') => self.at += 1,
                (None, b'\'' | b'"') => quote = Some(next),
                (None, _) if next == open => depth += 1,
                (None, _) if next == close => depth -= 1,
                _ => {}
            }
            self.skip_character();
            if depth == 0 && quote.is_none() {
                return &self.source[start..self.at - 1];
            }
        }
        self.parsed.parsing_failed = true;
        self.source.get(start..).unwrap_or_default()
    }

    fn redirect(&mut self) {
        let operators = ["&>>", "<<<", "<<-", "&>", ">>", "<<", ">&", "<&", ">|", "<>", ">", "<"];
        let operator = operators
            .into_iter()
            .find(|operator| self.rest().starts_with(operator))
            .unwrap_or_default();
        self.at += operator.len();
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.at += 1;
        }
        let (start, end, _) = self.read_word();
        let target = &self.source[start..end];
        self.parsed.parsing_failed |= target.is_empty();
        if matches!(operator, "<<" | "<<-") {
            self.here_documents.push(unquoted(target));
        }
        self.parsed
            .redirects
            .push(Redirect { operator: operator.to_owned(), target: target.to_owned() });
    }

    fn skip_here_documents(&mut self) {
        for delimiter in std::mem::take(&mut self.here_documents) {
            let mut ended = false;
            while !ended && self.at < self.source.len() {
                let line = self.rest().split('\n').next().unwrap_or_default();
                ended = line.trim_start_matches('\t') == delimiter;
                self.at = (self.at + line.len() + 1).min(self.source.len());
            }
            self.parsed.parsing_failed |= !ended;
        }
    }

    fn end_command(&mut self) {
        let words = std::mem::take(&mut self.words);
        let text = |word: &(usize, usize, &str)| &self.source[word.0..word.1];
        let begin =
            words.iter().position(|word| !PREFIXES.contains(&text(word))).unwrap_or(words.len());
        let words = &words[begin..];
        let Some(named) = words.iter().position(|word| !is_assignment(text(word))) else {
            return;
        };
        if NOT_UNDERSTOOD.contains(&text(&words[named])) {
            self.parsed.parsing_failed = true;
            return;
        }
        let full_text = self.source[words[0].0..words[words.len() - 1].1].to_owned();
        let args = words[named + 1..]
            .iter()
            .map(|word| Word { kind: word.2, text: text(word).to_owned() })
            .collect();
        let name = unquoted(text(&words[named]));
        self.parsed.commands.push(SimpleCommand { name, args, full_text });
    }
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && !name.starts_with(|first: char| first.is_ascii_digit())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

fn unquoted(word: &str) -> String {
    word.chars().filter(|character| !matches!(character, '\'' | '"' | '\\')).collect()
}

#[cfg(test)]
#[path = "shell_syntax_tests.rs"]
mod tests;
