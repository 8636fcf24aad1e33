use pretty_assertions::assert_eq;

use super::*;

fn raw(json: &str) -> Box<RawValue> {
    serde_json::from_str(json).unwrap()
}

#[test]
fn numbers_are_read_whether_they_come_as_numbers_or_as_strings() {
    let detail = raw(
        r#"{"exitCode":"-1","executionTime":1510,"outputLocation":{"filePath":"/x","sizeBytes":"40001"}}"#,
    );
    let output = ShellOutput::read(&detail);
    assert_eq!((output.exit_code, output.execution_time_ms), (Some(-1), Some(1510)));
    assert_eq!(output.output_location.unwrap().size_bytes, Some(40001));
}

#[test]
fn a_field_of_another_shape_is_absent_and_the_others_are_kept() {
    let detail = raw(r#"{"path":["x"],"linesAdded":2,"linesRemoved":null,"diffString":"+a"}"#);
    let expected =
        EditSuccess { lines_added: Some(2), diff: Some("+a".into()), ..EditSuccess::default() };
    assert_eq!(EditSuccess::read(&detail), expected);
    assert_eq!(ShellArgs::read(&raw("[1]")), ShellArgs::default());
    assert_eq!(McpSuccess::read(&raw(r#"{"isError":true}"#)).is_error, Some(true));
}
