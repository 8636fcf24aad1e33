//! Writes a conversation to a file, for users to read or for Caretaker to read back.
//!
//! **Invariant:** the same conversation gives the same bytes, at any time, in any time zone and on any machine.
//!
//! **Invariant:** a conversation's text never becomes active: in HTML and Markdown it stays text.

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

/// The formats of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// To read anywhere.
    #[value(name = "md", alias = "markdown")]
    Markdown,
    /// One object, complete; `--from` reads it back.
    Json,
    /// One line per message, complete; `--from` reads it back.
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

    /// The format of files with this extension.
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
