use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex. A panic in another thread does not make its content wrong.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
