//! Counts the tokens of a run. The agent reports them only with its result.

use agent_stream::Usage;

/// Adds up the tokens in the results of a run. An unreported number is unknown, not zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TokenCount {
    /// The sum of the reported numbers.
    known: u64,
    n_results: u32,
    n_silent: u32,
}

impl TokenCount {
    /// Adds the tokens of one result. An agent may give several results.
    pub(crate) fn add(&mut self, said: Option<u64>) {
        self.n_results = self.n_results.saturating_add(1);
        match said {
            Some(tokens) => self.known = self.known.saturating_add(tokens),
            None => self.n_silent = self.n_silent.saturating_add(1),
        }
    }

    /// The total, if there was a result and every result reported its tokens.
    pub(crate) fn total(self) -> Option<u64> {
        (self.n_results > 0 && self.n_silent == 0).then_some(self.known)
    }

    /// The reported tokens, if they exceed the limit. Zero means no limit.
    pub(crate) fn beyond(self, most: u64) -> Option<u64> {
        (most > 0 && self.known > most).then_some(self.known)
    }
}

/// Adds up all kinds of tokens. `None` unless both input and output tokens are known.
pub(crate) fn all_tokens(usage: &Usage) -> Option<u64> {
    let cached = [usage.cache_read_tokens, usage.cache_write_tokens].into_iter().flatten();
    let sum = usage.input_tokens?.saturating_add(usage.output_tokens?);
    Some(cached.fold(sum, u64::saturating_add))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_total_needs_a_count_from_every_result_but_the_known_counts_can_exceed_the_limit(
            said in proptest::collection::vec(proptest::option::of(0..1000_u64), 0..6),
            most in 0..3000_u64,
        ) {
            let mut count = TokenCount::default();
            said.iter().for_each(|tokens| count.add(*tokens));
            let known: u64 = said.iter().flatten().sum();
            let is_whole = !said.is_empty() && said.iter().all(Option::is_some);
            prop_assert_eq!(count.total(), is_whole.then_some(known));
            prop_assert_eq!(count.beyond(most), (most > 0 && known > most).then_some(known));
        }
    }
}
