//! Builds what `cursor_stores` reads as `ide_old`.
