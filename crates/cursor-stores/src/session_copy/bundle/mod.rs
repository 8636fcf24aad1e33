//! Bundles: a single file that carries a session to another machine, and the import of such a file.

#[cfg(test)]
mod format_tests;
pub(crate) mod header;
pub(crate) mod import;
pub(crate) mod machine_paths;
pub(crate) mod moved;
pub(crate) mod path_rules;
pub(crate) mod reader;
pub(crate) mod root_relation;
pub(crate) mod store_update;
pub(crate) mod writer;

pub(crate) use machine_paths::file_uri;
