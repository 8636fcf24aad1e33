use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::model::Moment;

const AT: i64 = 1_700_000_000_000;

fn generation(text: &str, at: i64) -> Json {
    json!({"textDescription": text, "unixMs": AT + at, "generationUUID": format!("g{at}")})
}

fn said(messages: &[Message]) -> Vec<(String, Option<Moment>)> {
    messages.iter().map(|message| (message.text(), message.at)).collect()
}

#[test]
fn a_prompt_gets_the_time_of_a_generation_of_the_same_text() {
    let value = json!({
        "prompts": [{"text": "again"}, {"text": "between"}, {"text": "again"}, {"text": "after"}],
        "generations": [
            generation("before", -5), generation("again", 10), generation("elsewhere", 15), generation("again", 20),
            {"textDescription": "timeless"},
        ],
    });
    let messages = decode_prompts(&value);
    let at = |ms| Some(Moment::recorded(AT + ms));
    let expected = [
        ("before", at(-5)),
        ("again", at(10)),
        ("between", Some(Moment::interpolated(AT + 12))),
        ("elsewhere", at(15)),
        ("again", at(20)),
        ("after", None),
        ("timeless", None),
    ];
    assert_eq!(said(&messages), expected.map(|(text, at)| (text.to_owned(), at)));
    assert_eq!(messages[1].id.as_deref(), Some("g10"));
}

#[test]
fn odd_entries_are_kept() {
    let messages = decode_prompts(&json!({"prompts": ["bare", 7, {"text": 1}]}));
    assert_eq!(messages[0].parts, [Part::text("bare")]);
    assert_eq!(messages[1].parts, [Part::Unknown { kind: "prompt".to_owned(), value: json!(7) }]);
    assert_eq!(messages.len(), 3);
    assert_eq!(decode_prompts(&json!({"generations": "x"})), []);
}

proptest! {
    #[test]
    fn every_entry_comes_out_once(
        prompts in proptest::collection::vec("[ab]{0,2}", 0..20),
        generations in proptest::collection::vec(("[ab]{0,2}", -50..50_i64), 0..20),
    ) {
        let value = json!({
            "prompts": prompts.iter().map(|text| json!({"text": text})).collect::<Vec<_>>(),
            "generations": generations.iter().map(|(text, at)| generation(text, *at)).collect::<Vec<_>>(),
        });
        let messages = decode_prompts(&value);
        prop_assert_eq!(messages.len(), pieces_of_prompts(&value).len());
        let typed = pair(&value);
        prop_assert_eq!(typed.iter().filter(|typed| typed.prompt.is_some()).count(), prompts.len());
        prop_assert_eq!(typed.iter().filter(|typed| typed.generation.is_some()).count(), generations.len());
        let order: Vec<String> = typed.iter().filter_map(|typed| Some(typed.prompt?["text"].as_str()?.to_owned())).collect();
        prop_assert_eq!(order, prompts, "prompts keep their order");
    }
}
