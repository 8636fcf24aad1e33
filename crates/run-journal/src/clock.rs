//! Since which start of the machine a process runs.

/// The kernel's name for this start of the machine; `None` where it is hidden.
pub fn boot_id() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned()).filter(|id| !id.is_empty())
}

/// When a process was started, in the kernel's ticks since the machine was; `None` if there is no such process.
pub fn process_started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold anything, closing brackets too; behind the last one stand the state and then numbers.
    let (_, behind_name) = stat.rsplit_once(')')?;
    behind_name.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_one_start_and_a_missing_one_has_none() {
        let us = std::process::id();
        assert!(process_started(us).is_some());
        assert_eq!(process_started(us), process_started(us));
        assert_eq!(process_started(u32::MAX), None);
    }
}
