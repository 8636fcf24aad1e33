//! What the agent printed, in the form in which it is kept.

/// One line of the agent's output, without its line feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentLine<'a> {
    /// A JSON value, kept byte for byte, white space around it included.
    Json(&'a [u8]),
    /// Text that is not JSON.
    Text(&'a str),
    /// Bytes that are not UTF-8.
    Bytes(&'a [u8]),
    /// A line over the ceiling: its first bytes, its whole length, and the SHA-256 of all of it.
    Cut { head: &'a [u8], length: u64, sha256: [u8; 32] },
}

/// How a line of the agent's ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LineEnding {
    #[default]
    LineFeed,
    /// It did not: the output ended in the middle of it.
    Missing,
}

/// Whether known secret values were replaced in a line before it was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Redaction {
    /// The line is what the agent printed.
    #[default]
    Untouched,
    /// Something in it was replaced.
    Redacted,
}
