//! Formats numbers for users.

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

/// `90 s`, `3 min`, `2 h 7 min`: an approximate duration, rounded up.
pub fn span(milliseconds: u64) -> String {
    match milliseconds.div_ceil(1000) {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// `5 s`, `3 min`, `2 h`, `4 d`: a rough age.
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
#[path = "units_tests.rs"]
mod tests;
