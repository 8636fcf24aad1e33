//! A unified diff with one hunk: everything between the common beginning and the common end of two texts.

/// A diff as text, with the number of lines that it adds and removes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Diff {
    pub(super) text: String,
    pub(super) n_added: usize,
    pub(super) n_removed: usize,
}

const CONTEXT: usize = 3;

/// Compares two texts line by line. `before` is `None` for a file that did not exist.
///
/// Like Cursor's output, it neither shows a missing newline at the end nor ends in a newline.
pub(super) fn diff(path: &str, before: Option<&str>, after: &str) -> Diff {
    let old = lines(before.unwrap_or_default());
    let new = lines(after);
    let n_same_start = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let n_longest_end = old.len().min(new.len()) - n_same_start;
    let ends = old.iter().rev().zip(new.iter().rev()).take(n_longest_end);
    let n_same_end = ends.take_while(|(old, new)| old == new).count();
    let removed = &old[n_same_start..old.len() - n_same_end];
    let added = &new[n_same_start..new.len() - n_same_end];

    let from = before.map_or_else(|| "/dev/null".to_owned(), |_| format!("a/{path}"));
    let mut text = vec![format!("--- {from}"), format!("+++ b/{path}")];
    if !removed.is_empty() || !added.is_empty() {
        let leading = &old[n_same_start.saturating_sub(CONTEXT)..n_same_start];
        let trailing =
            &old[old.len() - n_same_end..(old.len() - n_same_end + CONTEXT).min(old.len())];
        let n_context = leading.len() + trailing.len();
        let start = n_same_start - leading.len();
        let old_range = range(start, n_context + removed.len());
        let new_range = range(start, n_context + added.len());
        text.push(format!("@@ -{old_range} +{new_range} @@"));
        for (sign, part) in [(' ', leading), ('-', removed), ('+', added), (' ', trailing)] {
            text.extend(part.iter().map(|line| format!("{sign}{line}")));
        }
    }
    Diff { text: text.join("\n"), n_added: added.len(), n_removed: removed.len() }
}

/// Omits a count of one. An empty range names the line before it.
fn range(start: usize, n_lines: usize) -> String {
    match n_lines {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        _ => format!("{},{n_lines}", start + 1),
    }
}

fn lines(text: &str) -> Vec<&str> {
    match text.strip_suffix('\n').unwrap_or(text) {
        "" if text.is_empty() => Vec::new(),
        text => text.split('\n').collect(),
    }
}

#[cfg(test)]
#[path = "diff_tests.rs"]
mod tests;
