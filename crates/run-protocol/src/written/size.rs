//! Sizes as people write them: `512MiB`, `2 GiB`, `0`.

use std::fmt;
use std::str::FromStr;

use super::text_serde;

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a size; write `512MiB`, `2GiB` or `0`")]
pub struct NotASize(String);

impl FromStr for ByteSize {
    type Err = NotASize;

    fn from_str(text: &str) -> Result<Self, NotASize> {
        let refused = || NotASize(text.to_owned());
        let digits_end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits_end);
        let number: u64 = number.parse().map_err(|_| refused())?;
        let factor: u64 = match unit.trim() {
            "" if number == 0 => 1,
            "B" => 1,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            "TiB" => 1 << 40,
            _ => return Err(refused()),
        };
        number.checked_mul(factor).map(Self).ok_or_else(refused)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}B", self.0)
    }
}

text_serde!(ByteSize, "a string such as `512MiB`");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_need_a_binary_unit() {
        assert_eq!("2GiB".parse(), Ok(ByteSize(2 << 30)));
        assert_eq!("512 MiB".parse(), Ok(ByteSize(512 << 20)));
        assert_eq!("0".parse(), Ok(ByteSize(0)));
        for text in ["", "2", "2GB", "-1MiB", "1.5GiB", "99999999999TiB"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }
}
