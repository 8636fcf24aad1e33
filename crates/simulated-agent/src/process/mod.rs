//! The agent as a process: its environment, its output, its children and its end.

pub mod ending;
pub mod environment;
pub mod failures;
pub mod groups;
pub mod helpers;
pub mod signals;
pub mod stdout;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The longest time that anything here hangs or lingers on purpose, so that no test leaks a process forever.
pub const LONGEST_LIFE: Duration = Duration::from_secs(600);

/// Locks a mutex, even if a thread panicked while holding it: none of these critical sections leaves a broken state.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
