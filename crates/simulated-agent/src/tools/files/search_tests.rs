use pretty_assertions::assert_eq;

use super::*;
use crate::permissions::ApprovalPolicy;
use crate::tools::ToolRequest;
use crate::tools::test_environment::TestEnvironment;

fn grep_for(environment: &TestEnvironment, pattern: &str, path: &str) -> ToolRun {
    environment.call(&ToolRequest::Grep { pattern: pattern.to_owned(), path: path.into() }).1
}

fn glob_for(environment: &TestEnvironment, pattern: &str) -> ToolRun {
    environment.call(&ToolRequest::Glob { pattern: pattern.to_owned() }).1
}

fn tree() -> TestEnvironment {
    let environment = TestEnvironment::new();
    environment.file("src/main.rs", "fn main() {\n    helper();\n}\n");
    environment.file("src/helper.rs", "pub fn helper() {}\n");
    environment.file("README.md", "# Helper\n");
    environment.file(".git/config", "helper = hidden\n");
    environment.file("binary", b"helper\0");
    std::os::unix::fs::symlink("/", environment.workspace.join("link")).unwrap();
    environment
}

#[test]
fn grep_lists_matching_lines_by_file() {
    let environment = tree();
    let tool_run = grep_for(&environment, "helper", "");
    let workspace = environment.workspace.to_str().unwrap();
    let line = |number: u32, content: &str| json!({"lineNumber": number, "contentTruncated": false, "content": content, "isContextLine": false});
    assert_eq!(
        tool_run.result["success"]["workspaceResults"][workspace]["content"],
        json!({
            "matches": [
                {"file": "./src/helper.rs", "matches": [line(1, "pub fn helper() {}")]},
                {"file": "./src/main.rs", "matches": [line(2, "    helper();")]},
            ],
            "totalLines": 2, "totalMatchedLines": 2, "clientTruncated": false, "ripgrepTruncated": false,
        })
    );
    assert_eq!(
        tool_run.for_model,
        "./src/helper.rs:1:pub fn helper() {}\n./src/main.rs:2:    helper();\n"
    );
}

#[test]
fn grep_searches_one_file_or_directory_on_request() {
    let environment = tree();
    assert!(grep_for(&environment, "^fn", "src/main.rs").for_model.starts_with("./src/main.rs:1:"));
    assert_eq!(grep_for(&environment, "Helper", "src").for_model, "No matches found.");
    assert!(grep_for(&environment, "x", "missing").is_error);
    let outside = environment.directory.path().canonicalize().unwrap().join("outside.txt");
    std::fs::write(&outside, "a hit\n").unwrap();
    let outside = outside.to_str().unwrap();
    assert_eq!(grep_for(&environment, "hit", outside).for_model, format!("{outside}:1:a hit\n"));
    assert_eq!(
        grep_for(&environment, "hit", "src/../../outside.txt").for_model,
        format!("{outside}:1:a hit\n")
    );
}

#[test]
fn grep_skips_a_file_that_must_not_be_read() {
    let mut environment = tree();
    environment.permit(ApprovalPolicy::Force, &[], &["Read(src/main*)"]);
    assert_eq!(
        grep_for(&environment, "helper", "src").for_model,
        "./src/helper.rs:1:pub fn helper() {}\n"
    );
}

#[test]
fn grep_takes_a_regular_expression_and_reports_a_bad_one() {
    let environment = TestEnvironment::new();
    environment.file("a", "one\ntwo|three\n125\n");
    for (pattern, expected) in [
        ("^t.*e$", "./a:2:two|three\n"),
        ("one|nine", "./a:1:one\n"),
        (r"o\|t", "./a:2:two|three\n"),
        ("[0-9]{3}", "./a:3:125\n"),
    ] {
        assert_eq!(grep_for(&environment, pattern, "").for_model, expected, "{pattern}");
    }
    let bad = grep_for(&environment, "fn main(", "");
    assert!(bad.is_error && bad.for_model.contains("unclosed group"), "{}", bad.for_model);
}

#[test]
fn grep_stops_at_its_limits_and_says_so() {
    let environment = TestEnvironment::new();
    environment.file("many", "hit\n".repeat(MAX_MATCHED_LINES + 1));
    let wide = "x".repeat(MAX_LINE_CHARACTERS + 1);
    environment.file("wide", &wide);
    let content = |tool_run: &ToolRun| {
        tool_run.result["success"]["workspaceResults"][environment.workspace.to_str().unwrap()]["content"].clone()
    };
    let many = content(&grep_for(&environment, "hit", ""));
    assert_eq!(
        (&many["totalLines"], &many["clientTruncated"]),
        (&json!(MAX_MATCHED_LINES), &json!(true))
    );
    let cut = content(&grep_for(&environment, "xxx", "wide"));
    assert_eq!(cut["matches"][0]["matches"][0]["contentTruncated"], json!(true));
    environment.file("long", vec![b'y'; MAX_BYTES_PER_FILE as usize + 1]);
    assert_eq!(content(&grep_for(&environment, "z", "long"))["clientTruncated"], json!(true));
}

#[test]
fn glob_finds_a_bare_name_anywhere_and_a_path_only_at_its_place() {
    let environment = tree();
    for (pattern, expected) in [
        ("*.rs", json!(["src/helper.rs", "src/main.rs"])),
        ("**/*.md", json!(["README.md"])),
        ("src/m*", json!(["src/main.rs"])),
        ("config", json!([])),
        ("src/**", json!(["src/helper.rs", "src/main.rs"])),
        ("*.md", json!(["README.md"])),
        ("main.*", json!(["src/main.rs"])),
        ("*/*.md", json!([])),
    ] {
        let success = &glob_for(&environment, pattern).result["success"];
        assert_eq!(success["files"], expected, "{pattern}");
        assert_eq!(success["totalFiles"], json!(expected.as_array().unwrap().len()));
    }
}

#[test]
fn ls_lists_directories_and_files_of_one_level() {
    let environment = tree();
    let (prepared, tool_run) = environment.call(&ToolRequest::Ls { path: ".".into() });
    assert_eq!(prepared.args["path"], json!(environment.workspace));
    assert_eq!(prepared.args["ignore"], json!([]));
    let root = &tool_run.result["success"]["directoryTreeRoot"];
    assert_eq!(root["absPath"], prepared.args["path"]);
    assert_eq!(
        root["childrenFiles"],
        json!([{"name": "README.md"}, {"name": "binary"}, {"name": "link"}])
    );
    let directories: Vec<_> =
        root["childrenDirs"].as_array().unwrap().iter().map(|child| &child["absPath"]).collect();
    assert_eq!(
        directories,
        [&json!(environment.workspace.join(".git")), &json!(environment.workspace.join("src"))]
    );
    assert_eq!(tool_run.for_model, ".git/\nsrc/\nREADME.md\nbinary\nlink");
    let (_, missing) = environment.call(&ToolRequest::Ls { path: "missing".into() });
    assert!(missing.result["error"]["error"].is_string() && missing.is_error);
}
