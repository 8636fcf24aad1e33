//! Protobuf at the byte level: one field after another, without their meaning.

/// One field of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WireField<'a> {
    pub(crate) number: u64,
    /// All bytes of the field, including its number and its length.
    pub(crate) raw: &'a [u8],
    pub(crate) value: WireValue<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WireValue<'a> {
    Number(u64),
    /// A text, a message, or bytes.
    Bytes(&'a [u8]),
}

/// Takes the first field off a message. Returns `None` if the bytes are not a field, or if they use groups, the
/// obsolete form of nested messages.
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
#[path = "wire_tests.rs"]
mod tests;
