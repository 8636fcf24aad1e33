use pretty_assertions::assert_eq;

use super::*;

#[test]
fn kernel_releases_are_compared_by_their_numbers() {
    for (release, is) in
        [("4.18.0-80.el8", true), ("5.13.9", true), ("5.14.0", false), ("6.1", false), ("?", false)]
    {
        assert_eq!(is_older(release, COUNTED_PER_NAMESPACE), is, "{release}");
    }
}

#[test]
fn without_a_cgroup_there_is_a_warning_and_each_process_is_limited() {
    let asked = ResourceLimits {
        memory_bytes: 1 << 30,
        processes: 64,
        cpu_milli: 500,
        file_bytes: 4096,
        open_files: 99,
        disk_bytes: 7,
        ..ResourceLimits::default()
    };
    let reasons = vec!["cgroup v2: not mounted".to_owned()];
    let confined =
        Confined::new(asked, LimitBackend::Rlimits, ResourceLimits::default(), reasons, 1);
    assert_eq!(confined.process_limits.data_bytes, Some(3 << 29));
    assert!(confined.process_limits.processes.is_some_and(|most| most > 64));
    assert_eq!(confined.process_limits.open_files, Some(99));
    let [weak, processors] = confined.warnings.as_slice() else {
        panic!("{:?}", confined.warnings)
    };
    assert!(weak.contains("not mounted"), "{weak}");
    assert!(processors.contains("processors"), "{processors}");
    assert_eq!(confined.in_force.held.cpu_milli, 0);
    assert_eq!(confined.in_force.held.disk_bytes, 7);
}

#[test]
fn under_a_cgroup_memory_and_processes_are_not_limited_twice() {
    let asked = ResourceLimits { memory_bytes: 1 << 30, processes: 64, ..Default::default() };
    let held = ResourceLimits { required: false, ..asked };
    let confined = Confined::new(asked, LimitBackend::CgroupV1, held, Vec::new(), 1);
    // Otherwise the run would first reach the limit that the shim cannot see.
    assert_eq!(confined.process_limits, ProcessLimits::default());
    assert!(confined.warnings.is_empty());
}

#[test]
fn the_exit_code_shows_that_the_agent_wrote_too_large_a_file() {
    let asked = ResourceLimits { file_bytes: 4096, ..ResourceLimits::default() };
    let confined = Confined::new(asked, LimitBackend::CgroupV1, asked, Vec::new(), 1);
    assert_eq!(confined.look(Some(153)), Some(LimitKind::FileSize { bytes: 4096 }));
    assert_eq!(confined.look(Some(1)), None);
    assert_eq!(confined.look(None), None);
}

#[test]
fn the_survey_leaves_nothing_behind_on_any_host() {
    let survey = survey_limits();
    let hierarchies = Hierarchies::of_this_process().unwrap();
    let name = format!("caretaker-trial-{}", std::process::id());
    for placement in hierarchies.unified.iter().chain(hierarchies.legacy.values()) {
        assert!(!placement.own.join(&name).exists(), "{survey:?}");
    }
}

#[test]
fn limits_that_cannot_be_enforced_are_refused_with_every_reason() {
    let error =
        LimitsNotHeld { reasons: vec!["cgroup v2: a".to_owned(), "cgroup v1: b".to_owned()] };
    let text = error.to_string();
    assert!(text.ends_with("cgroup v2: a; cgroup v1: b"), "{text}");
}
