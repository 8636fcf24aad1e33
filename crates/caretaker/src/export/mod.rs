//! A conversation as a file to keep, to read or to read back.
//!
//! **Invariant:** the same conversation gives the same bytes: nothing of the export itself, no time, no zone and no
//! machine, is in them.
//!
//! **Invariant:** nothing that was said can act: in HTML and Markdown every text of a conversation is text.

pub(crate) mod commit_journal;
mod facts;
mod fields;
pub(crate) mod file_name;
mod harmless_markdown;
mod html;
mod html_text;
mod markdown;
pub(crate) mod output_file;

use std::io::{self, Write};

use clap::ValueEnum;
use cursor_stores::model::Conversation;

/// The forms of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// To read anywhere.
    #[value(name = "md", alias = "markdown")]
    Markdown,
    /// One object, complete; `--from` reads it back.
    Json,
    /// A line for each message, complete; `--from` reads it back.
    Jsonl,
    /// One page that needs nothing else, to read in a browser.
    Html,
}

impl Format {
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Self::Markdown => "md",
            Self::Json => "json",
            Self::Jsonl => "jsonl",
            Self::Html => "html",
        }
    }

    /// The format that a file of this name has.
    pub(crate) fn of_extension(extension: &str) -> Option<Self> {
        Self::value_variants().iter().copied().find(|format| format.extension() == extension)
    }
}

/// Writes a conversation.
pub(crate) fn write(
    conversation: Conversation,
    format: Format,
    out: &mut dyn Write,
) -> io::Result<()> {
    match format {
        Format::Markdown => markdown::write(&conversation, out),
        Format::Json => cursor_stores::write_json(&conversation, out),
        Format::Jsonl => cursor_stores::write_jsonl(conversation, out),
        Format::Html => html::write(&conversation, out),
    }
}
