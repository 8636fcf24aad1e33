use super::*;

#[test]
fn a_model_has_a_display_name_that_is_not_its_id() {
    assert_eq!(find("gpt-5-mini").unwrap().display_name, "GPT-5 Mini");
    assert_eq!(find("opus-4.6-high-fast").unwrap().display_name, "Claude 4.6 Opus High Fast");
    assert!(find("GPT-5 Mini").is_none());
}

#[test]
fn the_refusal_is_one_line_of_about_ten_kilobytes() {
    let refusal = refusal("gpt-9");
    assert!(refusal.starts_with("Cannot use this model: gpt-9. Available models: auto, "));
    assert!((8_000..13_000).contains(&refusal.len()), "{}", refusal.len());
    assert!(!refusal.contains('\n'));
}
