//! Conversations as the commands look at them: counted, watched while they grow, chosen by time.

pub(crate) mod conversation_stats;
pub(crate) mod directory_watch;
pub(crate) mod point_in_time;
pub(crate) mod session_news;
