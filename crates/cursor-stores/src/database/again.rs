//! Reads a file again if another process wrote to it in the meantime.

/// How often to read a file that keeps changing.
pub(crate) const ATTEMPTS: usize = 5;

/// Reads, and reads again while `is_change` says that the error comes from a writer.
pub(crate) fn again_if<T, E>(
    is_change: impl Fn(&E) -> bool,
    mut read: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    for _ in 1..ATTEMPTS {
        match read() {
            Err(err) if is_change(&err) => {}
            done => return done,
        }
    }
    read()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of reads that fail with these errors in turn, and the number of reads.
    fn reads(errors: &[&'static str]) -> (Result<(), &'static str>, usize) {
        let mut n_reads = 0;
        let done = again_if(
            |error| *error == "changed",
            || {
                n_reads += 1;
                errors.get(n_reads - 1).map_or(Ok(()), |error| Err(*error))
            },
        );
        (done, n_reads)
    }

    #[test]
    fn only_a_change_is_read_again_and_not_for_ever() {
        assert_eq!(reads(&[]), (Ok(()), 1));
        assert_eq!(reads(&["changed", "changed"]), (Ok(()), 3));
        assert_eq!(reads(&["changed", "damaged"]), (Err("damaged"), 2));
        assert_eq!(reads(&["changed"; 9]), (Err("changed"), ATTEMPTS));
    }
}
