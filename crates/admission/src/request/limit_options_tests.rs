use pretty_assertions::assert_eq;

use super::*;

fn profile(extra: &str) -> Profile {
    Profile::parse("mine", &format!("extends = \"default\"\n{extra}")).unwrap()
}

#[test]
fn a_flag_wins_over_the_configuration_and_both_over_the_profile() {
    let profile = profile("[limits]\nmemory = \"1G\"\nprocesses = 100\nrequired = true\n");
    let none = LimitOptions::default();
    let of_profile = resources(&none, &none, &profile);
    assert_eq!((of_profile.memory_bytes, of_profile.processes), (1 << 30, 100));
    assert!(of_profile.required);
    // What the profile of a user does not name is as in the one that it extends.
    assert_eq!(of_profile.open_files, 4096);

    let config = LimitOptions {
        memory: Some(MemoryLimit(2 << 30)),
        disk: Some(SizeLimit(7)),
        ..none.clone()
    };
    let flags = LimitOptions { memory: Some(MemoryLimit(0)), ..none };
    let all = resources(&flags, &config, &profile);
    assert_eq!((all.memory_bytes, all.disk_bytes, all.processes), (0, 7, 100));
}

#[test]
fn limits_are_read_as_people_write_them() {
    assert_eq!("4GiB".parse(), Ok(MemoryLimit(4 << 30)));
    assert_eq!("none".parse(), Ok(MemoryLimit(0)));
    assert_eq!("512".parse(), Ok(ProcessLimit(512)));
    assert_eq!("none".parse(), Ok(ProcessLimit(0)));
    assert_eq!("1.5".parse(), Ok(CpuLimit(1500)));
    assert_eq!("2".parse(), Ok(CpuLimit(2000)));
    assert_eq!("10 MiB".parse(), Ok(SizeLimit(10 << 20)));
}

#[test]
fn limits_that_nobody_can_mean_are_refused_with_what_to_write() {
    let memory = |text: &str| text.parse::<MemoryLimit>().unwrap_err().to_string();
    assert_eq!(memory("4GB"), "`4GB` is not a size; write `512MiB`, `2GiB` or `none`");
    assert_eq!(memory("4"), "`4` is not a size; write `512MiB`, `2GiB` or `none`");
    assert_eq!(memory("1MiB"), "`1MiB` is not enough for any agent; give at least 64MiB");
    let processes = |text: &str| text.parse::<ProcessLimit>().unwrap_err().to_string();
    assert!(processes("many").contains("write `512` or `none`"));
    assert!(processes("3").contains("at least 24"));
    for text in ["-1", "0.001", "x", "inf", "NaN", "1e9"] {
        assert!(text.parse::<CpuLimit>().is_err(), "{text}");
    }
}
