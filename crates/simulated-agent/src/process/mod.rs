//! The agent as a process: what surrounds it, what it prints, what it starts, and how it ends.

pub mod ending;
pub mod environment;
pub mod failures;
pub mod groups;
pub mod helpers;
pub mod signals;
pub mod stdout;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The longest time that anything here hangs or lingers on purpose, so that no test leaks a process for ever.
pub const LONGEST_LIFE: Duration = Duration::from_secs(600);

/// Locks a mutex. A thread that panicked in between has left nothing half done in any of them.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
