//! Finds literals that every match of a regular expression contains, so that most records need not be decoded.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::literal::{ExtractKind, Extractor, Seq};
use regex_syntax::hir::{Hir, HirKind};

/// Shorter literals occur nearly everywhere.
const MIN_BYTES: usize = 3;
/// Searching for more literals is no faster than searching for the expression.
const MAX_ALTERNATIVES: usize = 100;

/// Returns byte sequences, at least one of which is in every match. `None` if there is no useful set. Lists all
/// spellings if case is ignored.
pub(super) fn required_literals(expression: &str, ignores_case: bool) -> Option<Vec<Vec<u8>>> {
    let hir = ParserBuilder::new().case_insensitive(ignores_case).build().parse(expression).ok()?;
    let best = candidates(&hir).into_iter().filter_map(usable).max_by_key(|literals| {
        let shortest = literals.iter().map(Vec::len).min().unwrap_or(0);
        (shortest, std::cmp::Reverse(literals.len()))
    })?;
    Some(best)
}

/// The literals at the beginning and the end of a match, and at the beginning of each of its parts.
fn candidates(hir: &Hir) -> Vec<Seq> {
    let mut found = vec![beginnings(hir), endings(hir)];
    let mut inner = hir;
    while let HirKind::Capture(capture) = inner.kind() {
        inner = &capture.sub;
    }
    if let HirKind::Concat(parts) = inner.kind() {
        found.extend((1..parts.len()).map(|n| beginnings(&Hir::concat(parts[n..].to_vec()))));
        // A required part, with its own alternatives or captures.
        for part in parts {
            match part.kind() {
                HirKind::Capture(_) => found.extend(candidates(part)),
                HirKind::Repetition(repeated) if repeated.min > 0 => {
                    found.extend(candidates(&repeated.sub));
                }
                _ => {}
            }
        }
    }
    found
}

fn beginnings(hir: &Hir) -> Seq {
    Extractor::new().kind(ExtractKind::Prefix).extract(hir)
}

fn endings(hir: &Hir) -> Seq {
    Extractor::new().kind(ExtractKind::Suffix).extract(hir)
}

fn usable(literals: Seq) -> Option<Vec<Vec<u8>>> {
    let literals = literals.literals()?;
    let is_usable = !literals.is_empty()
        && literals.len() <= MAX_ALTERNATIVES
        && literals.iter().all(|literal| literal.len() >= MIN_BYTES);
    is_usable.then(|| literals.iter().map(|literal| literal.as_bytes().to_vec()).collect())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    fn texts(expression: &str) -> Option<Vec<String>> {
        let literals = required_literals(expression, false)?;
        Some(literals.into_iter().map(|bytes| String::from_utf8(bytes).unwrap()).collect())
    }

    #[test]
    fn the_longest_literals_are_required() {
        let one = |text: &str| Some(vec![text.to_owned()]);
        assert_eq!(texts(r"TODO\(\w+\)"), one("TODO("));
        assert_eq!(texts(r"\d+ failed"), one(" failed"));
        assert_eq!(texts(r"\w+ xylograph\w* of \d+"), one(" xylograph"));
        assert_eq!(texts(r"\bcat(alogue|ena)\b"), Some(vec!["catalogue".into(), "catena".into()]));
        assert_eq!(texts(r"\d(needle)+\d"), one("needle"));
    }

    #[test]
    fn an_expression_that_requires_no_text_has_no_literals() {
        for expression in [r"\w+", "a|b", ".*", "(needle)?", "needle|.", "ab", r"\d{4}-\d{2}"] {
            assert_eq!(texts(expression), None, "{expression}");
        }
    }

    proptest! {
        #[test]
        fn every_match_contains_one_of_the_literals(
            expression in "(foo|[a-c]{1,3}|\\(bar\\|ba[rz]\\)|x\\?|\\.\\*|\\\\b|qu+x|É|ß){1,5}",
            text in "(foo|[a-cA-C]{1,3}|bar|baz|x|qux|quux|É|é|ß| ){0,8}",
            ignores_case: bool,
        ) {
            let regex = regex::RegexBuilder::new(&expression).case_insensitive(ignores_case).build();
            if let (Ok(regex), Some(literals)) = (regex, required_literals(&expression, ignores_case))
                && let Some(found) = regex.find(&text)
            {
                let found = found.as_str().as_bytes();
                let has = |literal: &Vec<u8>| memchr::memmem::find(found, literal).is_some();
                prop_assert!(literals.iter().any(has), "{expression:?} in {text:?}: {literals:?}");
            }
        }
    }
}
