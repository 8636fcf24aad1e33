//! The memory limit of a run whose profile says `auto`.

/// The lowest limit that `auto` sets, if the machine has that much: with less, a compiler or the agent itself fails.
const LEAST: u64 = 2 << 30;
/// The limit if the machine's memory is unknown.
const UNKNOWN: u64 = 4 << 30;

/// Half of the machine's memory, divided by the number of runs that the queue starts at once.
pub fn usual_limit(machine: Option<u64>, cap: u32) -> u64 {
    let Some(machine) = machine else { return UNKNOWN };
    (machine / 2 / u64::from(cap.max(1))).max(LEAST).min(machine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_share_half_of_the_machines_memory_with_a_minimum_for_each() {
        const GIB: u64 = 1 << 30;
        assert_eq!(usual_limit(Some(64 * GIB), 8), 4 * GIB);
        assert_eq!(usual_limit(Some(64 * GIB), 1), 32 * GIB);
        assert_eq!(usual_limit(Some(16 * GIB), 8), 2 * GIB);
        assert_eq!(usual_limit(Some(GIB), 8), GIB);
        assert_eq!(usual_limit(Some(64 * GIB), 0), 32 * GIB);
        assert_eq!(usual_limit(None, 8), 4 * GIB);
    }
}
