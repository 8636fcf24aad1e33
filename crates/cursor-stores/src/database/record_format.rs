//! SQLite's row format: length and number, a header of types, then the values.

/// A value in a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value<'a> {
    Null,
    Integer(i64),
    Real(f64),
    Text(&'a [u8]),
    Blob(&'a [u8]),
}

/// The types of a row's values, and where the values begin.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RecordHead {
    pub(crate) kinds: Vec<u64>,
    pub(crate) n_bytes: usize,
}

/// Cursor's tables have fewer columns.
const MAX_COLUMNS: usize = 64;

impl RecordHead {
    /// Reads the header at the beginning of a row.
    pub(crate) fn read(row: &[u8]) -> Option<Self> {
        let mut rest = row;
        let n_bytes = usize::try_from(varint(&mut rest)?).ok()?;
        let mut types = row.get(row.len() - rest.len()..n_bytes)?;
        let mut kinds = Vec::new();
        while !types.is_empty() {
            if kinds.len() == MAX_COLUMNS {
                return None;
            }
            kinds.push(varint(&mut types)?);
        }
        Some(Self { kinds, n_bytes })
    }

    /// Returns the length of a row with this header.
    pub(crate) fn row_length(&self) -> Option<usize> {
        self.kinds
            .iter()
            .try_fold(self.n_bytes, |length, kind| length.checked_add(value_length(*kind)?))
    }

    /// Returns the position of a column's value in the row.
    pub(crate) fn place_of(&self, column: usize) -> Option<std::ops::Range<usize>> {
        let start = self
            .kinds
            .get(..column)?
            .iter()
            .try_fold(self.n_bytes, |start, kind| start.checked_add(value_length(*kind)?))?;
        Some(start..start.checked_add(value_length(*self.kinds.get(column)?)?)?)
    }
}

/// Reads all values of a row.
pub(crate) fn record(row: &[u8]) -> Option<Vec<Value<'_>>> {
    let head = RecordHead::read(row)?;
    let mut values = row.get(head.n_bytes..)?;
    head.kinds
        .iter()
        .map(|kind| {
            let (bytes, rest) = values.split_at_checked(value_length(*kind)?)?;
            values = rest;
            value(*kind, bytes)
        })
        .collect()
}

/// Returns the length of a value of this type.
pub(crate) fn value_length(kind: u64) -> Option<usize> {
    match kind {
        0 | 8 | 9 => Some(0),
        1..=4 => usize::try_from(kind).ok(),
        5 => Some(6),
        6 | 7 => Some(8),
        10 | 11 => None,
        kind => usize::try_from((kind - 12) / 2).ok(),
    }
}

/// Reads a value of this type. Texts and blobs may be shorter than the type states.
pub(crate) fn value(kind: u64, bytes: &[u8]) -> Option<Value<'_>> {
    Some(match kind {
        0 => Value::Null,
        1..=6 => {
            let is_negative = bytes.first().is_some_and(|first| first & 0x80 != 0);
            let sign = if is_negative { -1 } else { 0 };
            Value::Integer(bytes.iter().fold(sign, |number, byte| number << 8 | i64::from(*byte)))
        }
        7 => Value::Real(f64::from_be_bytes(bytes.try_into().ok()?)),
        8 => Value::Integer(0),
        9 => Value::Integer(1),
        10 | 11 => return None,
        kind if kind.is_multiple_of(2) => Value::Blob(bytes),
        _ => Value::Text(bytes),
    })
}

/// Reads SQLite's variable-length integer: most significant bits first. A ninth byte has eight bits.
pub(crate) fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for position in 0..9 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        if position == 8 {
            return Some(value << 8 | u64::from(*byte));
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

pub(crate) fn big_endian_16(page: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(u16::from_be_bytes(page.get(at..at.checked_add(2)?)?.try_into().ok()?)))
}

pub(crate) fn big_endian_32(page: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(page.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// Returns how many bytes of a row stay on its page. `usable` is the usable size of a page.
pub(crate) fn local_length(length: usize, usable: usize) -> usize {
    let most = usable - 35;
    if length <= most {
        return length;
    }
    let least = (usable - 12) * 32 / 255 - 23;
    let spread = least + (length - least) % (usable - 4);
    if spread <= most { spread } else { least }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn numbers_keep_their_sign() {
        assert_eq!(value(1, &[0xff]), Some(Value::Integer(-1)));
        assert_eq!(value(2, &[0x80, 0]), Some(Value::Integer(-32_768)));
        assert_eq!(value(5, &[0, 0, 0, 0, 1, 0]), Some(Value::Integer(256)));
        assert_eq!(value(7, &1.5_f64.to_be_bytes()), Some(Value::Real(1.5)));
    }

    #[test]
    fn the_types_before_a_value_give_its_position() {
        // A two-byte text, a one-byte number and a three-byte blob.
        let row = [4, 17, 1, 18, b'a', b'b', 7, 1, 2, 3];
        let head = RecordHead::read(&row).unwrap();
        assert_eq!(head.row_length(), Some(row.len()));
        assert_eq!(head.place_of(2), Some(7..10));
        assert_eq!(head.place_of(3), None);
        assert_eq!(
            record(&row),
            Some(vec![Value::Text(b"ab"), Value::Integer(7), Value::Blob(&[1, 2, 3])])
        );
    }
}
