use std::path::PathBuf;

use pretty_assertions::assert_eq;
use store_fixtures::Closing;
use store_fixtures::chat::{Chat, Generation, Turn};

use super::*;

fn written(home: &Path, name: &str, prompts: &[&str]) -> PathBuf {
    let turns = prompts.iter().map(|prompt| Turn::plain(prompt, "ok")).collect();
    let chat = Chat::new(Generation::Sep2026, "same").with_turns(turns);
    chat.write_cli(&home.join(name), Closing::Clean)
}

#[test]
fn the_store_with_everything_that_the_others_have_is_the_furthest() {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str, prompts: &[&str]| written(home.path(), name, prompts);
    let short = at("short", &["one"]);
    let long = at("long", &["one", "two"]);
    let other = at("other", &["three"]);
    assert_eq!(furthest(&[&short, &long]), Some(1));
    assert_eq!(furthest(&[&long, &short]), Some(0));
    assert_eq!(furthest(&[&long, &long]), Some(0), "a copy: the first");
    assert_eq!(furthest(&[&long, &other]), None);
    assert_eq!(furthest(&[&short, &long, &other]), None);
    assert_eq!(furthest(&[&long, &home.path().join("missing")]), None);
    assert_eq!(furthest(&[] as &[PathBuf]), None);
}
