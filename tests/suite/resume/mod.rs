//! Sessions that are resumed, refused, inherited, copied, or killed in the middle.

mod buckets;
mod copies;
mod crashes;
mod inheritance;
mod new_sessions;
mod refusals;
mod siblings;
mod storm;
mod suspend_and_resume;
