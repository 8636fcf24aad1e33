use super::*;

#[test]
fn the_inventory_names_the_files_and_stays_short() {
    let workspace = tempfile::tempdir().unwrap();
    fs::create_dir(workspace.path().join("src")).unwrap();
    for n in 0..60 {
        fs::write(workspace.path().join(format!("{n:02}.txt")), "").unwrap();
    }
    let text = inventory(&entries(workspace.path()));
    assert!(text.contains("- `00.txt`\n"));
    assert!(text.ends_with("- and 11 more\n"), "{text}");
    assert!(inventory(&[]).ends_with("Nothing yet.\n"));
}

#[test]
fn the_greeting_of_a_resumed_session_quotes_the_last_prompt() {
    let said = |role, text: &str| RememberedMessage { role, text: text.to_owned() };
    let history = [said(Role::User, "Mind the gap."), said(Role::Assistant, "I will.")];
    assert!(greeting(&history).contains("you said: \"Mind the gap.\""));
    assert!(!greeting(&[]).contains("you said"));
}
