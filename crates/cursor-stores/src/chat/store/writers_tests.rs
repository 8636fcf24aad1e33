use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use pretty_assertions::assert_eq;

use super::*;

#[test]
fn a_parent_counts_as_a_writer_and_its_child_does_not() {
    let directory = tempfile::tempdir().unwrap();
    let store_db = directory.path().join(DATABASE);
    fs::write(&store_db, "rows").unwrap();
    assert_eq!(writers_of(&store_db), []);
    let script = "exec 3<>\"$0\"; sleep 600 & echo $!; read -r line; kill $!";
    let mut shell = Command::new("sh")
        .args(["-c", script])
        .arg(&store_db)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = String::new();
    BufReader::new(shell.stdout.as_mut().unwrap()).read_line(&mut child).unwrap();
    let child: u32 = child.trim().parse().unwrap();
    let mut open = HashSet::new();
    add_files_of(Path::new(&format!("/proc/{child}")), &mut open);
    assert_eq!(open.len(), 1, "the child has the file open, too");
    let writers = writers_of(&store_db);
    // The shell ends when its input ends.
    drop(shell.stdin.take());
    shell.wait().unwrap();
    assert_eq!(writers, [StoreWriter { pid: shell.id(), program: "sh".to_owned() }]);
}
