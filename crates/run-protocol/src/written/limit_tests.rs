use pretty_assertions::assert_eq;

use super::*;

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
fn impossible_limits_are_refused_with_an_example() {
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
