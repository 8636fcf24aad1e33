use super::super::Order;
use super::*;

fn script_of(prompt: &str, workspace: &Path) -> Option<Script> {
    find(None, prompt, workspace).unwrap()
}

#[test]
fn a_block_in_the_prompt_is_the_script() {
    let prompt = "Please do this:\n```agent\nsay hello\n```\nand nothing else";
    let script = script_of(prompt, Path::new("/nowhere")).unwrap();
    assert_eq!(script.orders, [Order::Say("hello".into())]);
    let nested = "````agent\nsay <<END\n```\ncode\n```\nEND\n````";
    let script = script_of(nested, Path::new("/nowhere")).unwrap();
    assert_eq!(script.orders, [Order::Say("```\ncode\n```".into())]);
}

#[test]
fn a_prompt_may_name_a_file_of_the_workspace() {
    let workspace = tempfile::tempdir().unwrap();
    fs::write(workspace.path().join("plan.txt"), "say from the file").unwrap();
    let script = script_of("Do as written.\nscript: plan.txt", workspace.path()).unwrap();
    assert_eq!(script.orders, [Order::Say("from the file".into())]);
    assert!(script_of("no script here", workspace.path()).is_none());
}

#[test]
fn the_environment_comes_first_and_a_mistake_names_file_and_line() {
    let workspace = tempfile::tempdir().unwrap();
    let path = workspace.path().join("orders");
    fs::write(&path, "say one\nsya two").unwrap();
    let err = find(Some(&path), "```agent\nsay other\n```", workspace.path()).unwrap_err();
    let expected = format!(
        "the script `{}`, line 2: unknown order `sya`; did you mean `say`?",
        path.display()
    );
    assert_eq!(err.to_string(), expected);
}
