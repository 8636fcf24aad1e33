//! Commands that start, watch and stop runs, and remove old ones.

pub(crate) mod gc;
pub(crate) mod kill;
pub(crate) mod pin;
pub(crate) mod ps;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod show;
pub(crate) mod suspend;
pub(crate) mod tail;
pub(crate) mod wait;
pub(crate) mod why;
