//! Identifies a boot of the machine, and a process within it.

/// The kernel's id of this boot; `None` if the kernel hides it.
pub fn boot_id() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned()).filter(|id| !id.is_empty())
}

/// When a process was started, in kernel ticks since boot; `None` if there is no such process.
pub fn process_started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain anything, even closing brackets. After the last bracket come the state and then numbers.
    let (_, behind_name) = stat.rsplit_once(')')?;
    behind_name.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_a_fixed_start_time_and_a_missing_process_has_none() {
        let us = std::process::id();
        assert!(process_started(us).is_some());
        assert_eq!(process_started(us), process_started(us));
        assert_eq!(process_started(u32::MAX), None);
    }
}
