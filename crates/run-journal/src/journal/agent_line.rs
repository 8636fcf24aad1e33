//! A line that the agent printed, as the journal keeps it.

/// One line of the agent's output, without its line feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentLine<'a> {
    /// A JSON value, kept byte for byte, including the white space around it.
    Json(&'a [u8]),
    /// Text that is not JSON.
    Text(&'a str),
    /// Bytes that are not UTF-8.
    Bytes(&'a [u8]),
    /// A line that is too long to keep: its first bytes, its full length, and the SHA-256 of the whole line.
    Cut { head: &'a [u8], length: u64, sha256: [u8; 32] },
}

/// How the agent's line ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LineEnding {
    #[default]
    LineFeed,
    /// The output ended in the middle of the line.
    Missing,
}

/// Whether the shim replaced secret values in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Redaction {
    #[default]
    Untouched,
    Redacted,
}
