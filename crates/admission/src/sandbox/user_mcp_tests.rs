use cursor_home::{NameClash, TOOL_LIMIT, ToolBudget};
use pretty_assertions::assert_eq;

use super::*;

fn report(added: &[&str], used: usize, unknown: &[&str]) -> UserMcpReport {
    let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    UserMcpReport {
        added: owned(added),
        of_repository: Vec::new(),
        clashes: Vec::new(),
        switched_off: Vec::new(),
        off_for_session: Vec::new(),
        unreachable: Vec::new(),
        budget: ToolBudget { used, unknown: owned(unknown), limit: TOOL_LIMIT },
    }
}

#[test]
fn remarks_say_which_servers_are_left_out_and_why() {
    let report = UserMcpReport {
        clashes: vec![NameClash { ours: "caretaker".to_owned(), left_out: "Caretaker".to_owned() }],
        switched_off: vec!["slack".to_owned()],
        ..report(&[], 3, &[])
    };
    assert_eq!(
        remarks(&report),
        [
            "none of your own MCP servers are switched on",
            "switched off for this workspace: slack",
            "your MCP server `Caretaker` is left out: Caretaker's own is called `caretaker`",
        ]
    );
}

#[test]
fn tools_are_counted_against_cursors_limit() {
    let said = |report| remarks(&report).pop().unwrap();
    assert_eq!(said(report(&["a", "b"], 40, &[])), "the agent has your own MCP servers: a, b");
    assert!(said(report(&["a"], 41, &[])).contains("have 41 tools; Cursor is said to use only 40"));
    assert!(
        said(report(&["a", "b"], 3, &["a", "b"])).contains("3 are known, and a, b may have more")
    );
}

#[test]
fn disabled_servers_are_looked_up_for_the_repository_and_for_the_workspace() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path().canonicalize().unwrap();
    let inner = home.join("repo/inner");
    std::fs::create_dir_all(&inner).unwrap();
    std::fs::create_dir(home.join("repo/.git")).unwrap();
    let workspace = WorkspacePath::new(&inner).unwrap();
    let roots = CursorRoots::in_sandbox(&home);
    assert_eq!(find(&workspace, &roots), None);
    std::fs::create_dir(home.join(".cursor")).unwrap();
    std::fs::write(roots.user_mcp_json(), "{}").unwrap();
    let files = find(&workspace, &roots).unwrap();
    let of = |path: &Path| {
        let root = WorkspacePath::new(path).unwrap();
        BytesPath::from(roots.project_dir(&root).disabled_servers())
    };
    assert_eq!(files.disabled, [of(&home.join("repo")), of(&inner)]);
    let top = WorkspacePath::new(&home.join("repo")).unwrap();
    assert_eq!(find(&top, &roots).unwrap().disabled, [of(&home.join("repo"))]);
}
