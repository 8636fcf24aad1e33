//! Decides whether a changed git configuration may stay, as a pure function.
//!
//! An agent may have written the new text. So it may differ from the old one only in settings that git, editors and
//! git-lfs write during ordinary work, and only with values that cannot make git run a program or reach another place.

use std::collections::BTreeSet;

use super::config_text::{Setting, settings};

/// The decision about a new configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Judgement {
    /// The text may stay.
    Accepted(Vec<u8>),
    /// The reason, for the user.
    Refused(String),
}

/// Compares a configuration with the last one that was accepted.
pub(super) fn judge(old: &[u8], new: &[u8]) -> Judgement {
    match difference(old, new) {
        None => Judgement::Accepted(new.to_vec()),
        Some(reason) => Judgement::Refused(reason),
    }
}

fn difference(old: &[u8], new: &[u8]) -> Option<String> {
    let (old, new) = match (settings(old), settings(new)) {
        (Ok(old), Ok(new)) => (old, new),
        (_, Err(problem)) => return Some(format!("its {problem}")),
        (Err(problem), _) => return Some(format!("before the change, its {problem}")),
    };
    let remotes = remotes(&old);
    let unknown = |setting: &&Setting| !old.contains(setting);
    let fixed = |all: &[Setting]| -> Vec<Setting> {
        all.iter().filter(|setting| rule_of(&setting.name).is_none()).cloned().collect()
    };
    let (fixed_old, fixed_new) = (fixed(&old), fixed(&new));
    if fixed_old != fixed_new {
        let is_missing = |setting: &&Setting| !fixed_new.contains(setting);
        let changed = fixed_new.iter().find(unknown).or(fixed_old.iter().find(is_missing));
        return Some(match changed {
            Some(setting) => format!("`{}` changed", shown_name(&setting.name)),
            None => "the order of its settings changed".to_owned(),
        });
    }
    let dangerous = new.iter().filter(unknown).find(|setting| {
        let rule = rule_of(&setting.name);
        !rule.is_some_and(|rule| rule.allows(setting.value.as_deref(), &remotes))
    });
    dangerous.map(|setting| {
        let value = setting.value.as_deref().unwrap_or_default();
        format!("`{}` became `{}`", shown_name(&setting.name), shown(value))
    })
}

/// The values that a setting may have. Only settings with a rule may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// `.` or a remote that had an address before. Git would also take a path or an address here.
    Remote,
    /// A branch, as `refs/heads/…`.
    Branch,
    /// The name of a branch or another reference.
    Reference,
    /// `owner#repository#number`.
    PullRequest,
    OneOf(&'static [&'static str]),
}

fn rule_of(name: &[u8]) -> Option<Rule> {
    let section = name.iter().position(|byte| *byte == b'.')?;
    let key = name.iter().rposition(|byte| *byte == b'.')?;
    let (section, middle, key) =
        (&name[..section], name.get(section + 1..key), name.get(key + 1..)?);
    Some(match (section, middle, key) {
        (b"branch", Some(branch), key) if is_reference(branch) => match key {
            b"remote" | b"pushremote" => Rule::Remote,
            b"merge" => Rule::Branch,
            b"rebase" => Rule::OneOf(&["true", "false", "merges"]),
            b"vscode-merge-base" | b"gh-merge-base" | b"gk-merge-base" | b"gk-merge-target" => {
                Rule::Reference
            }
            b"github-pr-owner-number" => Rule::PullRequest,
            _ => return None,
        },
        (b"lfs", None, b"repositoryformatversion") => Rule::OneOf(&["0"]),
        (b"lfs", Some(_), b"locksverify") => Rule::OneOf(&["true", "false"]),
        (b"lfs", Some(_), b"access") => Rule::OneOf(&["basic", "none", "negotiate"]),
        _ => return None,
    })
}

impl Rule {
    fn allows(self, value: Option<&[u8]>, remotes: &BTreeSet<&[u8]>) -> bool {
        let Some(value) = value else { return false };
        match self {
            Self::Remote => value == b"." || remotes.contains(value),
            Self::Branch => value.strip_prefix(b"refs/heads/").is_some_and(is_reference),
            Self::Reference => is_reference(value),
            Self::PullRequest => is_pull_request(value),
            Self::OneOf(values) => values.iter().any(|allowed| allowed.as_bytes() == value),
        }
    }
}

/// The remotes with an address. A remote without one could be a path.
fn remotes<'a>(settings: &'a [Setting]) -> BTreeSet<&'a [u8]> {
    let name = |setting: &'a Setting| {
        let name = setting.name.strip_prefix(b"remote.")?.strip_suffix(b".url")?;
        setting.value.as_ref().map(|_| name)
    };
    settings.iter().filter_map(name).collect()
}

/// Returns whether git accepts this as part of a reference's name. Refuses what looks like an option or an address.
fn is_reference(name: &[u8]) -> bool {
    let has = |part: &[u8]| name.windows(part.len()).any(|window| window == part);
    let is_plain = |byte: &u8| *byte > b' ' && *byte != 0x7f && !b"~^:?*[\\".contains(byte);
    !name.starts_with(b"-")
        && name.iter().all(is_plain)
        && !has(b"..")
        && !has(b"@{")
        && !name.ends_with(b".")
        && name
            .split(|byte| *byte == b'/')
            .all(|part| !part.is_empty() && !part.starts_with(b".") && !part.ends_with(b".lock"))
}

fn is_pull_request(value: &[u8]) -> bool {
    let is_word = |part: &[u8]| {
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
        !part.is_empty() && part.iter().all(is_plain)
    };
    match value.split(|byte| *byte == b'#').collect::<Vec<_>>()[..] {
        [owner, repository, number] => {
            is_word(owner)
                && is_word(repository)
                && is_word(number)
                && number.iter().all(u8::is_ascii_digit)
        }
        _ => false,
    }
}

/// Shows the name of a setting. An address in it may contain a password, so it is left out.
fn shown_name(name: &[u8]) -> String {
    let name = shown(name);
    match (name.split_once('.'), name.rsplit_once('.')) {
        (Some((section, middle)), Some((_, key))) if middle.contains("://") => {
            format!("{section}.….{key}")
        }
        _ => name,
    }
}

/// Shows bytes that an agent may have chosen.
fn shown(bytes: &[u8]) -> String {
    const MOST: usize = 100;
    let text: String = String::from_utf8_lossy(bytes).chars().take(MOST).collect();
    text.escape_debug().to_string()
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
