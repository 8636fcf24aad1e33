//! Finds chats below a directory, and reads each chat's head for a list.

pub(crate) mod account;
pub(crate) mod chat_files;
pub(crate) mod chat_head;
pub(crate) mod chats_root;
#[cfg(test)]
mod chats_root_tests;

pub(crate) use chat_files::{ChatFiles, FileState, META_FILE, MetaFile, directories_below};
pub(crate) use chats_root::{ChatsRoot, ListedChat, split_key};
