//! Protobuf as it stands in the bytes: fields one after the other, whatever they mean.

/// One field of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WireField<'a> {
    pub(crate) number: u64,
    /// All bytes of the field, its number and its length included.
    pub(crate) raw: &'a [u8],
    pub(crate) value: WireValue<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WireValue<'a> {
    Number(u64),
    /// A text, a message, or bytes.
    Bytes(&'a [u8]),
}

/// Takes the first field off a message. `None` if there is none there that can be told from the next: also where the old
/// form of nested messages is used, which nobody has written for decades.
pub(crate) fn next_field<'a>(rest: &mut &'a [u8]) -> Option<WireField<'a>> {
    let whole = *rest;
    let tag = varint(rest)?;
    let value = match tag & 7 {
        0 => WireValue::Number(varint(rest)?),
        1 => WireValue::Number(u64::from_le_bytes(take(rest, 8)?.try_into().ok()?)),
        2 => {
            let length = usize::try_from(varint(rest)?).ok()?;
            WireValue::Bytes(take(rest, length)?)
        }
        5 => WireValue::Number(u32::from_le_bytes(take(rest, 4)?.try_into().ok()?).into()),
        _ => return None,
    };
    let number = tag >> 3;
    let raw = &whole[..whole.len() - rest.len()];
    (number != 0).then_some(WireField { number, raw, value })
}

/// Appends a field whose value is bytes.
pub(crate) fn put_bytes_field(out: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    put_varint(out, number << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_field_is_read_as_it_was_written(number in 1..1_u64 << 29, value: Vec<u8>, after: Vec<u8>) {
            let mut written = Vec::new();
            put_bytes_field(&mut written, number, &value);
            let raw = written.clone();
            written.extend_from_slice(&after);
            let mut rest = written.as_slice();
            let field = next_field(&mut rest).unwrap();
            prop_assert_eq!(field, WireField { number, raw: &raw, value: WireValue::Bytes(&value) });
            prop_assert_eq!(rest, after.as_slice());
        }

        #[test]
        fn fields_of_any_bytes_are_all_of_them_in_their_order(bytes: Vec<u8>) {
            let mut rest = bytes.as_slice();
            let mut n_read = 0;
            while let Some(field) = next_field(&mut rest) {
                prop_assert_eq!(field.raw, &bytes[n_read..n_read + field.raw.len()]);
                n_read += field.raw.len();
            }
        }
    }
}
