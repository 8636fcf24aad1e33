//! Texts that several stores keep in the same form: prompts with their tags, times in prompts, titles, and the text of
//! an editor.

pub(crate) mod editor_text;
pub(crate) mod prompt_time;
pub(crate) mod title;
pub(crate) mod user_text;
