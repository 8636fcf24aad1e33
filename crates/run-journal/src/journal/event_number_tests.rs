use pretty_assertions::assert_eq;

use super::*;

#[test]
fn a_number_is_read_back_as_it_is_printed() {
    for (epoch, seq, text) in
        [(1, 17, "17"), (2, 17, "2:17"), (u32::MAX, u64::MAX, "4294967295:18446744073709551615")]
    {
        let number = EventNumber { epoch, seq };
        assert_eq!(number.to_string(), text);
        assert_eq!(text.parse(), Ok(number));
    }
    assert_eq!("1:17".parse(), Ok(EventNumber { epoch: 1, seq: 17 }));
}

#[test]
fn invalid_numbers_are_refused() {
    for text in ["", ":", "x", "1:", ":1", "-1", "1:2:3", "99999999999:1", " 1"] {
        assert!(text.parse::<EventNumber>().is_err(), "{text}");
    }
}

#[test]
fn a_later_epoch_is_later_whatever_its_numbers() {
    assert!(EventNumber { epoch: 2, seq: 16 } > EventNumber { epoch: 1, seq: 20 });
}
