use super::*;

#[test]
fn numbers_are_grouped_and_durations_have_a_fitting_unit() {
    assert_eq!(
        [0, 999, 1000, 14921, 1_234_567].map(grouped),
        ["0", "999", "1,000", "14,921", "1,234,567"]
    );
    assert_eq!(
        [0, 59_999, 185_000, 7_620_000, 900_000_000].map(age),
        ["0 s", "59 s", "3 min", "2 h", "10 d"]
    );
    assert_eq!(
        [0, 1, 1023, 1024, 1536, 5 << 20, 3 << 30].map(bytes),
        ["0 bytes", "1 byte", "1,023 bytes", "1.0 KiB", "1.5 KiB", "5.0 MiB", "3.0 GiB"]
    );
    assert_eq!(
        [350, 4162, 60_000, 185_000, 7_620_000].map(duration),
        ["350 ms", "4.1 s", "1 min 00 s", "3 min 05 s", "2 h 07 min"]
    );
}
