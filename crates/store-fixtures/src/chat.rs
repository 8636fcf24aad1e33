//! Builds what `cursor_stores` reads as `chat`.
