//! Builds what `cursor_stores` reads as `sdk`.
