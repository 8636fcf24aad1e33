//! Numbers as people read them.

/// `1234567` → `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in digits.char_indices() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `350 ms`, `4.2 s`, `3 min 05 s`, `2 h 07 min`.
pub fn duration(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    match seconds {
        0 => format!("{milliseconds} ms"),
        1..=59 => format!("{}.{} s", seconds, milliseconds % 1000 / 100),
        60..=3599 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// `5 s`, `3 min`, `2 h`, `4 d`: how long ago, at a glance.
pub fn age(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    match seconds {
        0..=59 => format!("{seconds} s"),
        60..=3599 => format!("{} min", seconds / 60),
        3600..=86_399 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// `3.4 GiB`.
pub fn bytes(number: u64) -> String {
    let unit = |exponent: u32, name: &str| {
        let tenths = (u128::from(number) * 10) >> (10 * exponent);
        format!("{}.{} {name}", tenths / 10, tenths % 10)
    };
    match number {
        0..0x400 => counted(number, "byte", "bytes"),
        0x400..0x10_0000 => unit(1, "KiB"),
        0x10_0000..0x4000_0000 => unit(2, "MiB"),
        _ => unit(3, "GiB"),
    }
}

/// `one line`, `3 lines`.
pub fn counted(number: u64, singular: &str, plural: &str) -> String {
    match number {
        1 => format!("1 {singular}"),
        _ => format!("{} {plural}", grouped(number)),
    }
}

#[cfg(test)]
mod tests {
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
}
