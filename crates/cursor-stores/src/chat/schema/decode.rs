//! Decodes a message, and detects whether decoding lost anything.

use prost::Message;

/// A decoded message, and how faithful it is to its bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded<M> {
    pub message: M,
    pub fidelity: Fidelity,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fidelity {
    /// Encoding the message again gives the same bytes.
    Exact,
    /// Encoding the message again gives different bytes: it has fields that this build does not know, or fields in a
    /// different order. Never write such a message back.
    Differs,
}

/// Decodes a message, encodes it again, and compares the bytes.
pub fn decode_message<M: Message + Default>(
    bytes: &[u8],
) -> Result<Decoded<M>, prost::DecodeError> {
    let message = M::decode(bytes)?;
    let fidelity =
        if message.encode_to_vec() == bytes { Fidelity::Exact } else { Fidelity::Differs };
    Ok(Decoded { message, fidelity })
}
