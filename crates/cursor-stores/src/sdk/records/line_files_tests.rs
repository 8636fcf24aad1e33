use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn lines_of(content: &[u8]) -> (Vec<(usize, Vec<u8>)>, Vec<Damage>) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), content).unwrap();
    let (mut lines, mut damage) = (Vec::new(), Vec::new());
    visit_lines(file.path(), &mut damage, &mut |number, line| {
        lines.push((number, line.to_vec()));
        ControlFlow::Continue(())
    })
    .unwrap();
    (lines, damage)
}

#[test]
fn line_numbers_include_empty_lines() {
    let (lines, damage) = lines_of(b"a\r\n\n  b\nc");
    assert_eq!(lines, [(1, b"a".to_vec()), (3, b"b".to_vec()), (4, b"c".to_vec())]);
    assert_eq!(damage, []);
}

#[test]
fn a_line_that_is_too_long_is_skipped_and_reported() {
    let mut content = vec![b'x'; MAX_LINE_BYTES + 10];
    content.extend_from_slice(b"\nnext");
    let (lines, damage) = lines_of(&content);
    assert_eq!(lines, [(2, b"next".to_vec())]);
    assert_eq!(damage.len(), 1);
    assert!(damage[0].place.ends_with("line 1"));
}

#[test]
fn the_last_line_of_an_agent_and_of_a_run_counts() {
    let directory = tempfile::tempdir().unwrap();
    let files = LineFiles { directory: directory.path().to_owned() };
    let agent = |name: &str| json!({"agentId": "a", "name": name}).to_string();
    std::fs::write(files.file(AGENTS), [agent("old"), agent("new")].join("\n")).unwrap();
    let run = |status: &str| json!({"agentId": "a", "runId": "r", "status": status}).to_string();
    std::fs::write(files.file(RUNS), [run("running"), run("finished")].join("\n")).unwrap();
    let mut damage = Vec::new();
    let agents = files.agents(None, &mut damage).unwrap();
    assert_eq!(agents.iter().map(|agent| agent.name.as_deref()).collect::<Vec<_>>(), [Some("new")]);
    let runs = files.runs(Some("a"), &mut damage).unwrap();
    assert_eq!(
        runs.iter().map(|run| run.status).collect::<Vec<_>>(),
        [super::super::RunStatus::Finished]
    );
    assert_eq!((files.runs(Some("b"), &mut damage).unwrap().len(), damage.len()), (0, 0));
}

proptest! {
    #[test]
    fn no_lines_make_reading_fail(content: Vec<u8>, ids in prop::collection::vec("[a-z]{1,3}", 0..3)) {
        let directory = tempfile::tempdir().unwrap();
        let files = LineFiles { directory: directory.path().to_owned() };
        for name in ALL {
            std::fs::write(files.file(name), &content).unwrap();
        }
        let mut damage = Vec::new();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        files.agents(None, &mut damage).unwrap();
        files.runs(None, &mut damage).unwrap();
        files.events(&ids, &mut damage).unwrap();
        files.blobs("a", &mut damage).unwrap();
    }
}
