//! What is looked up for a request: whether its name is free, and its secrets.

pub mod name_claim;
pub mod named_secret;
