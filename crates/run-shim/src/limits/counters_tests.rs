use super::*;

fn limits() -> ResourceLimits {
    ResourceLimits { memory_bytes: 64 << 20, processes: 9, ..ResourceLimits::default() }
}

fn unified(memory: &str, pids: &str) -> Option<LimitKind> {
    let group = tempfile::tempdir().unwrap();
    std::fs::write(group.path().join("memory.events"), memory).unwrap();
    std::fs::write(group.path().join("pids.events"), pids).unwrap();
    Counters::Unified { group: group.path().to_owned() }.look(&limits())
}

#[test]
fn only_the_effects_of_the_limit_itself_count() {
    let quiet = "low 0\nhigh 0\nmax 12\noom 0\noom_kill 0\noom_group_kill 0\n";
    assert_eq!(unified(quiet, "max 0\n"), None);
    let killed = "low 0\nhigh 0\nmax 12\noom 1\noom_kill 3\noom_group_kill 1\n";
    assert_eq!(unified(killed, "max 2\n"), Some(LimitKind::Memory { bytes: 64 << 20 }));
    // The machine was out of memory, not the run.
    let by_the_machine = "max 0\noom 0\noom_kill 1\n";
    assert_eq!(unified(by_the_machine, "max 0\n"), None);
    assert_eq!(unified(quiet, "max 2\n"), Some(LimitKind::Processes { most: 9 }));
}

#[test]
fn version_1_counts_elsewhere() {
    let group = tempfile::tempdir().unwrap();
    let put = |file: &str, text: &str| std::fs::write(group.path().join(file), text).unwrap();
    let look = || {
        let here = group.path().to_owned();
        Counters::Legacy { memory: here.clone(), pids: here }.look(&limits())
    };
    // A removed group has no counters.
    assert_eq!(look(), None);
    put("memory.oom_control", "oom_kill_disable 0\nunder_oom 1\noom_kill 0\n");
    put("memory.max_usage_in_bytes", "1000\n");
    put("pids.events", "max 0\n");
    assert_eq!(look(), None);
    put("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
    // Killed, but not by this limit.
    assert_eq!(look(), None);
    put("memory.memsw.max_usage_in_bytes", &format!("{}\n", 64 << 20));
    assert_eq!(look(), Some(LimitKind::Memory { bytes: 64 << 20 }));
}
