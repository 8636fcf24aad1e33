//! Our parser reads captured transcripts of real agents.

use std::process::Command;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::stage::programs::{program, transcripts};

#[test]
fn every_capture_parses_with_no_unknown_event_and_its_text_equals_the_result() {
    for file in transcripts() {
        let output = Command::new(program("caretaker"))
            .args(["parse", "--summary", "--json"])
            .arg(&file)
            .output()
            .unwrap();
        assert!(output.status.success());
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        let name = file.display();
        assert_eq!(summary["unknown_kinds"], json!({}), "{name}");
        assert_eq!(summary["malformed_lines"], json!([]), "{name}");
        assert_eq!(summary["text_agrees"], json!(true), "{name}");
        assert_eq!(summary["open_tools"], json!([]), "{name}");
        assert_eq!(summary["events"]["result"], json!(1), "{name}");
    }
}

#[test]
fn the_assembled_text_of_every_capture_is_printed_word_for_word() {
    for file in transcripts() {
        let last_line = std::fs::read_to_string(&file).unwrap();
        let result = last_line.lines().rfind(|line| line.contains("\"result\"")).unwrap();
        let result: Value = serde_json::from_str(result).unwrap();
        let output = Command::new(program("caretaker"))
            .args(["parse", "--text"])
            .arg(&file)
            .output()
            .unwrap();
        let expected = format!("{}\n", result["result"].as_str().unwrap());
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected, "{}", file.display());
    }
}
