//! Finds what a misspelt word may have meant.

/// Further away than this, a word is another word.
const FARTHEST: usize = 3;

/// Returns the nearest candidates, all of the same distance, in alphabetical order.
pub fn suggest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut nearest = FARTHEST;
    let mut similar = Vec::new();
    for candidate in candidates {
        if candidate.len() <= 1 {
            continue;
        }
        let distance = distance(word, candidate);
        let length = word.chars().count().max(candidate.chars().count());
        // Two words that share less than two fifths are not alike, however short.
        if length.saturating_sub(distance) * 5 <= length * 2 || distance > nearest {
            continue;
        }
        if distance < nearest {
            nearest = distance;
            similar.clear();
        }
        similar.push(candidate);
    }
    similar.sort_unstable();
    similar.dedup();
    similar
}

/// Insertions, deletions, replacements and swaps of neighbours that lead from one word to the other.
fn distance(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.chars().collect();
    let to: Vec<char> = to.chars().collect();
    let mut before_last = vec![0; to.len() + 1];
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for row in 1..=from.len() {
        let mut current = vec![row; to.len() + 1];
        for column in 1..=to.len() {
            let replaced = last[column - 1] + usize::from(from[row - 1] != to[column - 1]);
            current[column] = replaced.min(last[column] + 1).min(current[column - 1] + 1);
            let swapped = row > 1
                && column > 1
                && from[row - 1] == to[column - 2]
                && from[row - 2] == to[column - 1];
            if swapped {
                current[column] = current[column].min(before_last[column - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swap_of_neighbours_counts_once() {
        assert_eq!(distance("modle", "model"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn the_nearest_words_are_suggested_in_order() {
        assert_eq!(suggest("modl", ["mode", "model", "print"]), ["mode", "model"]);
        assert_eq!(suggest("xyzzy", ["mode", "model"]), Vec::<&str>::new());
    }
}
