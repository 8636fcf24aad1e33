//! Reads git's configuration, to find the files that git on the host obeys or starts.
//!
//! It parses like git, but skips invalid text. Git itself reports such errors.

use std::path::{Path, PathBuf};

/// One setting: `section.key`, or `section.name.key` if the section has a name. Section and key are in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) name: String,
    pub(crate) value: String,
}

/// A file or directory that git obeys because the configuration names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Named {
    /// More configuration.
    Include(PathBuf),
    /// A directory of hooks.
    Hooks(PathBuf),
    /// A word in a command, which may be a program.
    Program(PathBuf),
}

/// Reads the text of a configuration file.
pub(crate) fn settings(text: &str) -> Vec<Setting> {
    let mut settings = Vec::new();
    let mut section = String::new();
    let mut characters = text.chars().peekable();
    while let Some(&next) = characters.peek() {
        match next {
            '[' => {
                characters.next();
                section = read_section(&mut characters);
            }
            '#' | ';' => skip_line(&mut characters),
            next if next.is_alphabetic() => {
                let mut key = String::new();
                while let Some(c) = characters.next_if(|c| c.is_alphanumeric() || *c == '-') {
                    key.extend(c.to_lowercase());
                }
                while characters.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
                let value = match characters.next_if_eq(&'=') {
                    Some(_) => read_value(&mut characters),
                    // A key without a value means true.
                    None => "true".to_owned(),
                };
                settings.push(Setting { name: format!("{section}.{key}"), value });
            }
            _ => {
                characters.next();
            }
        }
    }
    settings
}

type Characters<'a> = std::iter::Peekable<std::str::Chars<'a>>;

fn skip_line(characters: &mut Characters<'_>) {
    while characters.next().is_some_and(|c| c != '\n') {}
}

/// Reads `section]`, `section.name]` or `section "name"]`.
fn read_section(characters: &mut Characters<'_>) -> String {
    let mut section = String::new();
    let mut name: Option<String> = None;
    while let Some(c) = characters.next() {
        match c {
            ']' | '\n' => break,
            '"' => {
                let name = name.get_or_insert_with(String::new);
                while let Some(c) = characters.next() {
                    match c {
                        '"' | '\n' => break,
                        '\\' => name.extend(characters.next()),
                        c => name.push(c),
                    }
                }
            }
            c if c.is_whitespace() => {}
            c => section.extend(c.to_lowercase()),
        }
    }
    match name {
        Some(name) => format!("{section}.{name}"),
        None => section,
    }
}

fn read_value(characters: &mut Characters<'_>) -> String {
    let (mut value, mut is_quoted) = (String::new(), false);
    // White space at the end counts only within quotes.
    let mut n_meant = 0;
    while let Some(c) = characters.next() {
        match c {
            '\n' => break,
            '"' => is_quoted = !is_quoted,
            '#' | ';' if !is_quoted => {
                skip_line(characters);
                break;
            }
            '\\' => match characters.next() {
                // The line continues.
                Some('\n') | None => {}
                Some('\r') => {
                    characters.next_if_eq(&'\n');
                }
                Some('n') => value.push('\n'),
                Some('t') => value.push('\t'),
                Some(other) => {
                    value.push(other);
                    n_meant = value.len();
                }
            },
            c if c.is_whitespace() && !is_quoted => {
                if !value.is_empty() {
                    value.push(c);
                }
            }
            c => {
                value.push(c);
                n_meant = value.len();
            }
        }
    }
    value.truncate(n_meant);
    value
}

/// Returns the files that a configuration names. The configuration file is in the directory `beside`, and the
/// repository's files are in `work_tree`. This only joins paths, and opens no file.
pub(crate) fn named_by(settings: &[Setting], beside: &Path, work_tree: &Path) -> Vec<Named> {
    let mut named = Vec::new();
    for Setting { name, value } in settings {
        let (section, key) = name.rsplit_once('.').unwrap_or(("", name));
        let section = section.split('.').next().unwrap_or_default();
        match (section, key) {
            // A home directory cannot be a workspace.
            _ if value.starts_with('~') => {}
            ("include" | "includeif", "path") => named.push(Named::Include(beside.join(value))),
            ("core", "hookspath") => named.push(Named::Hooks(work_tree.join(value))),
            _ if starts_a_program(section, key) => {
                let words = value.split(|c: char| c.is_whitespace() || "'\"!;&|".contains(c));
                let words = words.filter(|word| !word.is_empty() && !word.starts_with('-'));
                named.extend(words.map(|word| Named::Program(work_tree.join(word))));
            }
            _ => {}
        }
    }
    named
}

/// Returns true if git starts the value of a setting as a program. Git starts some without an explicit request.
fn starts_a_program(section: &str, key: &str) -> bool {
    match section {
        "core" => matches!(
            key,
            "fsmonitor"
                | "sshcommand"
                | "editor"
                | "pager"
                | "askpass"
                | "gitproxy"
                | "alternaterefscommand"
        ),
        "filter" => matches!(key, "clean" | "smudge" | "process"),
        "diff" => matches!(key, "external" | "command" | "textconv"),
        "merge" => key == "driver",
        "credential" => key == "helper",
        "gpg" => matches!(key, "program" | "defaultkeycommand"),
        "sequence" => key == "editor",
        "interactive" => key == "difffilter",
        "uploadpack" => key == "packobjectshook",
        "trailer" => matches!(key, "command" | "cmd"),
        "mergetool" | "difftool" | "man" | "browser" => matches!(key, "cmd" | "path"),
        "submodule" => key == "update",
        "alias" | "pager" => true,
        _ => false,
    }
}

#[cfg(test)]
#[path = "git_config_tests.rs"]
mod tests;
