//! The name and the secrets of a request.

pub mod name_claim;
pub mod named_secret;
