//! The real program lists, shows, searches, follows and exports Cursor's stores.

mod bundled_paths;
pub(crate) mod damaged_stores;
pub(crate) mod every_store;
mod export_page;
pub(crate) mod flipped_bits;
mod follow_all;
mod foreign_shapes;
mod ide_records;
mod model_names;
mod one_conversation;
mod raw_records;
mod sdk_stores;
mod simulated_stores;
