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
    fn splitting_into_fields_keeps_every_byte_in_order(bytes: Vec<u8>) {
        let mut rest = bytes.as_slice();
        let mut n_read = 0;
        while let Some(field) = next_field(&mut rest) {
            prop_assert_eq!(field.raw, &bytes[n_read..n_read + field.raw.len()]);
            n_read += field.raw.len();
        }
    }
}
