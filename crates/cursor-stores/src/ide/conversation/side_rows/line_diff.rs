//! Writes two states of a file as a unified diff. The store keeps both as changes to the original state, often without
//! the original text.

use std::fmt::Write;

use serde_json::Value as Json;

use crate::ide::lenient::items;

/// Replaces the original lines from `start` up to, but not including, `end`. Line numbers start at one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) lines: Vec<String>,
}

/// A line of one of the two states.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Line<'a> {
    Known(&'a str),
    /// Original lines whose text is unknown.
    Unknown {
        start: u64,
        count: u64,
    },
}

/// Reads the changes of a state, in file order.
pub(super) fn changes(json: &Json) -> Vec<Change> {
    let mut changes: Vec<Change> = items(json)
        .iter()
        .map(|change| {
            let number = |name: &str| change["original"][name].as_u64();
            let start = number("startLineNumber").unwrap_or(1).max(1);
            let end = number("endLineNumberExclusive").unwrap_or(start).max(start);
            let lines = items(&change["modified"]).iter().flat_map(lines_of).collect();
            Change { start, end, lines }
        })
        .collect();
    changes.sort_by_key(|change| (change.start, change.end));
    changes
}

fn lines_of(line: &Json) -> Vec<String> {
    let line = line.as_str().map_or_else(|| line.to_string(), str::to_owned);
    line.split('\n').map(str::to_owned).collect()
}

/// Returns a unified diff from `before` to `after`, or an empty text if both lists are empty. `first` has the lines of
/// the original, if known.
pub(super) fn unified(before: &[Change], after: &[Change], first: Option<&[&str]>) -> String {
    let mut diff = String::new();
    // How many lines longer than the original each state is so far.
    let (mut longer_before, mut longer_after) = (0_i64, 0_i64);
    for (start, end) in groups(before, after) {
        let old = side(before, start, end, first);
        let new = side(after, start, end, first);
        let n_first = signed(end - start);
        let (n_old, n_new) = (count(&old), count(&new));
        let _infallible = writeln!(
            diff,
            "@@ -{} +{} @@",
            range(signed(start).saturating_add(longer_before), n_old),
            range(signed(start).saturating_add(longer_after), n_new)
        );
        longer_before = longer_before.saturating_add(n_old.saturating_sub(n_first));
        longer_after = longer_after.saturating_add(n_new.saturating_sub(n_first));
        write_hunk(&mut diff, &old, &new);
    }
    diff
}

/// Returns the parts of the original that one of the states changes. Adjacent changes are one part.
fn groups(before: &[Change], after: &[Change]) -> Vec<(u64, u64)> {
    let mut places: Vec<(u64, u64)> =
        before.iter().chain(after).map(|change| (change.start, change.end)).collect();
    places.sort_unstable();
    let mut groups: Vec<(u64, u64)> = Vec::new();
    for (start, end) in places {
        match groups.last_mut() {
            Some(group) if start <= group.1 => group.1 = group.1.max(end),
            _ => groups.push((start, end)),
        }
    }
    groups
}

/// Returns a state's lines for a part of the original.
fn side<'a>(
    changes: &'a [Change],
    start: u64,
    end: u64,
    first: Option<&[&'a str]>,
) -> Vec<Line<'a>> {
    let mut lines = Vec::new();
    let mut at = start;
    let inside = changes.iter().filter(|change| change.start >= start && change.end <= end);
    for change in inside {
        lines.extend(unchanged(at, change.start, first));
        lines.extend(change.lines.iter().map(|line| Line::Known(line)));
        at = at.max(change.end);
    }
    lines.extend(unchanged(at, end, first));
    lines
}

fn unchanged<'a>(start: u64, end: u64, first: Option<&[&'a str]>) -> Vec<Line<'a>> {
    if start >= end {
        return Vec::new();
    }
    let index = |line: u64| usize::try_from(line - 1).unwrap_or(usize::MAX);
    match first.and_then(|first| first.get(index(start)..index(end))) {
        Some(known) => known.iter().map(|line| Line::Known(line)).collect(),
        None => vec![Line::Unknown { start, count: end - start }],
    }
}

fn write_hunk(diff: &mut String, old: &[Line<'_>], new: &[Line<'_>]) {
    let n_prefix = old.iter().zip(new).take_while(|(one, other)| one == other).count();
    let (old, new, prefix) = (&old[n_prefix..], &new[n_prefix..], &old[..n_prefix]);
    let ends = old.iter().rev().zip(new.iter().rev());
    let n_suffix = ends.take_while(|(one, other)| one == other).count();
    let (old, suffix) = old.split_at(old.len() - n_suffix);
    let new = &new[..new.len() - n_suffix];
    for (sign, lines) in [(' ', prefix), ('-', old), ('+', new), (' ', suffix)] {
        for line in lines {
            let _infallible = match line {
                Line::Known(text) => writeln!(diff, "{sign}{text}"),
                Line::Unknown { count: 1, .. } => {
                    writeln!(diff, "\\ {sign} 1 line that the store does not keep")
                }
                Line::Unknown { count, .. } => {
                    writeln!(diff, "\\ {sign} {count} lines that the store does not keep")
                }
            };
        }
    }
}

fn count(lines: &[Line<'_>]) -> i64 {
    lines.iter().fold(0_i64, |sum, line| match line {
        Line::Known(_) => sum.saturating_add(1),
        Line::Unknown { count, .. } => sum.saturating_add(signed(*count)),
    })
}

/// Writes `12,3`. For an empty range, names the line before it.
fn range(start: i64, length: i64) -> String {
    if length == 0 { format!("{},0", start.saturating_sub(1)) } else { format!("{start},{length}") }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
#[path = "line_diff_tests.rs"]
mod tests;
