//! Arbitrary bytes through each decoder. The first byte selects the decoder: `0` the first, `1` the second.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some((which, bytes)) = bytes.split_first() {
        cursor_stores::fuzzing::decode(which.wrapping_sub(b'0'), bytes);
    }
});
