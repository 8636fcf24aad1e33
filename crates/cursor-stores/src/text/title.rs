//! A title for a conversation whose store has none.

const MAX_CHARS: usize = 120;

/// Returns a prompt's first line that is not blank.
pub(crate) fn title_of(prompt: &str) -> Option<String> {
    let line = prompt.lines().map(str::trim).find(|line| !line.is_empty())?;
    let mut title: String = line.chars().take(MAX_CHARS).collect();
    if title.len() < line.len() {
        title.push('…');
    }
    Some(title)
}
