//! Reads a file again if another process wrote to it in the meantime.

use super::error::{OpenDatabaseError, ReadDatabaseError};

/// The most attempts to read a file that keeps changing.
pub(crate) const ATTEMPTS: usize = 5;

/// Retries a read while `is_change` says that a writer caused the error.
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

/// Says why a read from a database failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UseDatabaseError {
    #[error(transparent)]
    Open(#[from] OpenDatabaseError),
    #[error(transparent)]
    Read(#[from] ReadDatabaseError),
    /// The database lacks the tables of this kind of store.
    #[error("{0}")]
    NotAStore(&'static str),
}

impl UseDatabaseError {
    /// True if the error is permanent: the file is damaged, not just in use.
    pub(crate) fn is_lasting(&self) -> bool {
        !matches!(
            self,
            Self::Open(OpenDatabaseError::Locked | OpenDatabaseError::Changing)
                | Self::Read(ReadDatabaseError::Changed)
        )
    }
}

/// Opens a database and uses it. Tries again if another process wrote to it in the meantime.
pub(crate) fn again<T>(
    open_and_use: impl FnMut() -> Result<T, UseDatabaseError>,
) -> Result<T, UseDatabaseError> {
    again_if(|err| matches!(err, UseDatabaseError::Read(ReadDatabaseError::Changed)), open_and_use)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates reads that fail with these errors in turn. Returns the result and the number of reads.
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
    fn only_a_change_causes_retries_and_only_a_few() {
        assert_eq!(reads(&[]), (Ok(()), 1));
        assert_eq!(reads(&["changed", "changed"]), (Ok(()), 3));
        assert_eq!(reads(&["changed", "damaged"]), (Err("damaged"), 2));
        assert_eq!(reads(&["changed"; 9]), (Err("changed"), ATTEMPTS));
    }
}
