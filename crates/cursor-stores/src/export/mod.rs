//! Files that `sessions export` wrote: how they are made, and how they are read back.

#[cfg(test)]
mod export_tests;
mod file_form;
mod nesting;
mod store;

pub use file_form::{ExportFileError, write_json, write_jsonl};
pub(crate) use store::discover;
