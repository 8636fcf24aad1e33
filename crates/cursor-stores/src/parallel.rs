//! Runs many small tasks on all cores.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

/// Calls `work` for every item, on as many threads as there are cores. Returns the results in the order of the items.
/// Each thread takes the next item when it is free, so a large item does not delay the others.
pub fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let n_threads = n_cores().min(items.len());
    if n_threads <= 1 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let mut numbered: Vec<(usize, R)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..n_threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut answers = Vec::new();
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let Some(item) = items.get(number) else { return answers };
                        answers.push((number, work(item)));
                    }
                })
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| match thread.join() {
                Ok(answers) => answers,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    });
    numbered.sort_unstable_by_key(|(number, _)| *number);
    numbered.into_iter().map(|(_, answer)| answer).collect()
}

/// Locks a mutex, even after a panic in another thread: the data is still valid.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn n_cores() -> usize {
    // Cached, because the call reads several system files.
    static N_CORES: OnceLock<usize> = OnceLock::new();
    *N_CORES.get_or_init(|| thread::available_parallelism().map_or(1, NonZero::get))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<usize> = (0..1000).collect();
        let expected: Vec<usize> = items.iter().map(|item| item * 2).collect();
        assert_eq!(super::map(&items, |item| item * 2), expected);
        assert_eq!(super::map(&[] as &[usize], |item| *item), Vec::<usize>::new());
    }
}
