//! Random-looking choices for tests that try many moments.

use std::str::FromStr;

/// Numbers that look random and are the same in every test run.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Reads a number from the environment, such as `KILL_ROUNDS`.
pub(crate) fn number_from<N: FromStr>(variable: &str, usual: N) -> N {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}
