//! Text that several stores keep in the same form: prompts with their tags, times in prompts, titles, and editor text.

pub(crate) mod editor_text;
pub(crate) mod prompt_time;
pub(crate) mod title;
pub(crate) mod user_text;
