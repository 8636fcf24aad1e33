use cursor_home::ProjectDir;
use pretty_assertions::assert_eq;

use super::*;
use crate::tools::test_environment::TestEnvironment;

fn files_in(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory)
        .map_or(Vec::new(), |entries| entries.map(|entry| entry.unwrap().path()).collect())
}

#[test]
fn short_output_stays_in_memory_and_keeps_its_order() {
    let environment = TestEnvironment::new();
    let mut output = Output::new(&environment);
    output.push(Stream::Stdout, b"one\n");
    output.push(Stream::Stderr, b"two\n");
    output.push(Stream::Stdout, b"three\n");
    assert_eq!(output.stdout(), "one\nthree\n");
    assert_eq!(output.stderr(), "two\n");
    assert_eq!(output.interleaved(), "one\ntwo\nthree\n");
    assert_eq!(output.location(), None);
    assert!(files_in(&environment.project_directory.agent_tools()).is_empty());
}

#[test]
fn long_output_is_complete_in_a_file_and_cut_in_memory() {
    let environment = TestEnvironment::new();
    let mut output = Output::new(&environment);
    let line = [b'x'; 999].into_iter().chain([b'\n']).collect::<Vec<u8>>();
    for _ in 0..100 {
        output.push(Stream::Stdout, &line);
    }
    assert_eq!(output.stdout().len(), SPILL_THRESHOLD);
    assert_eq!(output.interleaved().len(), SPILL_THRESHOLD);
    let location = output.location().unwrap();
    assert_eq!((&location["sizeBytes"], &location["lineCount"]), (&json!("100000"), &json!("100")));
    assert_eq!(fs::read(location["filePath"].as_str().unwrap()).unwrap(), line.repeat(100));
    assert_eq!(files_in(&environment.project_directory.agent_tools()).len(), 1);
}

#[test]
fn the_older_agent_writes_no_file() {
    let mut environment = TestEnvironment::new();
    environment.generation = Generation::V2026_01;
    let mut output = Output::new(&environment);
    output.push(Stream::Stderr, &vec![b'x'; KEPT_WITHOUT_SPILL + 1]);
    assert_eq!(output.stderr().len(), KEPT_WITHOUT_SPILL);
    assert_eq!(output.location(), None);
    assert!(files_in(&environment.project_directory.agent_tools()).is_empty());
}

#[test]
fn a_file_that_begins_late_contains_the_output_before_it() {
    let environment = TestEnvironment::new();
    let path = environment.project_directory.path().join("terminals/7.txt");
    let mut output = Output::new(&environment);
    output.push(Stream::Stdout, b"before ");
    output.spill_into(&path);
    output.push(Stream::Stderr, b"after");
    let elsewhere = environment.workspace.join("elsewhere");
    output.spill_into(&elsewhere);
    assert!(!elsewhere.exists());
    assert_eq!(fs::read_to_string(&path).unwrap(), "before after");
}

#[test]
fn if_the_file_cannot_be_written_the_part_in_memory_remains() {
    let mut environment = TestEnvironment::new();
    let file = environment.workspace.join("file");
    fs::write(&file, "in the way").unwrap();
    environment.project_directory = ProjectDir::at(file);
    let mut output = Output::new(&environment);
    output.push(Stream::Stdout, &[b'x'; SPILL_THRESHOLD + 1]);
    assert_eq!(output.location(), None);
    assert_eq!(output.stdout().len(), SPILL_THRESHOLD);
}

#[test]
fn text_omits_a_character_that_the_limit_cut_and_replaces_other_damage() {
    assert_eq!(text("aé".as_bytes().split_last().unwrap().1), "a");
    assert_eq!(text(b"a\xffb"), "a\u{fffd}b");
}
