//! Guesses what a misspelt word meant.

/// Two words that differ more than this are unrelated.
const FARTHEST: usize = 3;

/// Asks about the known word that is nearest to `word`; empty if none is near.
pub(crate) fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let similar = known.into_iter().filter_map(|known| {
        let distance = strsim::damerau_levenshtein(word, known);
        let length = word.chars().count().max(known.chars().count());
        // Two short words that share less than two fifths are not alike either.
        let is_near = distance <= FARTHEST && (length - distance) * 5 > length * 2;
        is_near.then_some((distance, known))
    });
    similar.min().map_or_else(String::new, |(_, nearest)| format!("; did you mean `{nearest}`?"))
}

#[cfg(test)]
#[path = "suggestion_tests.rs"]
mod tests;
