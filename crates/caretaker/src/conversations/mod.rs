//! Counts conversations, watches them grow, and selects them by time.

pub(crate) mod conversation_stats;
pub(crate) mod directory_watch;
pub(crate) mod point_in_time;
pub(crate) mod session_news;
