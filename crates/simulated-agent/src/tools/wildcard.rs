//! Patterns in which `*` stands for any run of characters and everything else for itself.

/// Returns whether the whole text matches the pattern. Linear in practice, at worst the product of both lengths.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at_pattern, mut at_text) = (0, 0);
    // Where to go on when a literal run fails: the last star, taking one byte more than before.
    let mut retry: Option<(usize, usize)> = None;
    while at_text < text.len() {
        match pattern.get(at_pattern) {
            Some(b'*') => {
                retry = Some((at_pattern, at_text));
                at_pattern += 1;
            }
            Some(literal) if *literal == text[at_text] => {
                at_pattern += 1;
                at_text += 1;
            }
            _ => match &mut retry {
                Some((star, taken)) => {
                    *taken += 1;
                    (at_pattern, at_text) = (*star + 1, *taken);
                }
                None => return false,
            },
        }
    }
    pattern[at_pattern..].iter().all(|byte| *byte == b'*')
}

/// Returns whether a relative path matches a pattern of segments, in which `**` stands for any number of directories.
pub(crate) fn matches_path(pattern: &str, path: &str) -> bool {
    let pattern: Vec<&str> = pattern.split('/').collect();
    // `reached[i]`: the first i segments of the pattern match the segments of the path seen so far.
    let mut reached = vec![false; pattern.len() + 1];
    reached[0] = true;
    skip_double_stars(&pattern, &mut reached);
    for segment in path.split('/') {
        let mut next = vec![false; pattern.len() + 1];
        for (i, part) in pattern.iter().enumerate().filter(|(i, _)| reached[*i]) {
            if *part == "**" {
                next[i] = true;
            } else if matches(part, segment) {
                next[i + 1] = true;
            }
        }
        skip_double_stars(&pattern, &mut next);
        reached = next;
    }
    reached[pattern.len()]
}

/// A `**` may also stand for no directory at all.
fn skip_double_stars(pattern: &[&str], reached: &mut [bool]) {
    for (i, part) in pattern.iter().enumerate() {
        if reached[i] && *part == "**" {
            reached[i + 1] = true;
        }
    }
}

#[cfg(test)]
#[path = "wildcard_tests.rs"]
mod tests;
