//! Files that `sessions export` writes: how to write them, and how to read them back.

#[cfg(test)]
mod export_tests;
mod file_form;
#[cfg(test)]
mod format_tests;
mod nesting;
mod store;

pub use file_form::{ExportFileError, write_json, write_jsonl};
pub(crate) use store::discover;

/// A file in either form.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz_file(bytes: &[u8]) {
    drop(file_form::read_heads(&mut std::io::Cursor::new(bytes)));
    for filed in file_form::split(bytes).unwrap_or_default() {
        drop(filed.form.read());
    }
}
