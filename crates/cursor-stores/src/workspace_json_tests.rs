use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn remote(place: &str, path: &str) -> Workspace {
    Workspace { path: path.to_owned(), place: WorkspacePlace::Remote(place.to_owned()) }
}

#[test]
fn every_shape_of_a_uri_names_its_folder() {
    let ssh = hex::encode(r#"{"hostName":"box.example","user":"dev","port":2222}"#);
    let container = hex::encode(r#"{"hostPath":"/home/u/p","localDocker":false}"#);
    let old_container = hex::encode("/home/u/p");
    let cases = [
        ("file:///home/u/p".to_owned(), Workspace::here("/home/u/p")),
        (
            "file:///home/u/my%20project%2B%C3%A9".to_owned(),
            Workspace::here("/home/u/my project+é"),
        ),
        (
            "file:///home/u/all.code-workspace".to_owned(),
            Workspace::here("/home/u/all.code-workspace"),
        ),
        ("file:///c%3A/Users/me/p".to_owned(), Workspace::here(r"c:\Users\me\p")),
        ("file:///C:/Users/me".to_owned(), Workspace::here(r"C:\Users\me")),
        ("file://server/share/p".to_owned(), Workspace::here(r"\\server\share\p")),
        ("file://wsl.localhost/Ubuntu/home/u/p".to_owned(), remote("wsl+Ubuntu", "/home/u/p")),
        ("file://wsl%24/Debian/srv".to_owned(), remote("wsl+Debian", "/srv")),
        (r"\\wsl.localhost\Ubuntu\home\u".to_owned(), remote("wsl+Ubuntu", "/home/u")),
        (r"\\wsl$\Ubuntu\home\u".to_owned(), remote("wsl+Ubuntu", "/home/u")),
        (r"\\server\share".to_owned(), Workspace::here(r"\\server\share")),
        ("vscode-remote://wsl%2Bubuntu/home/u/p".to_owned(), remote("wsl+ubuntu", "/home/u/p")),
        ("vscode-remote://wsl+ubuntu/home/u/p".to_owned(), remote("wsl+ubuntu", "/home/u/p")),
        ("vscode-remote://ssh-remote%2Bbox/srv/p".to_owned(), remote("ssh-remote+box", "/srv/p")),
        (
            "vscode-remote://ssh-remote%2Bme%40box/srv".to_owned(),
            remote("ssh-remote+me@box", "/srv"),
        ),
        (
            format!("vscode-remote://ssh-remote%2B{ssh}/srv/p"),
            remote("ssh-remote+dev@box.example:2222", "/srv/p"),
        ),
        (
            format!("vscode-remote://dev-container%2B{container}/workspaces/p"),
            remote("dev-container+/home/u/p", "/workspaces/p"),
        ),
        (
            format!("vscode-remote://dev-container%2B{old_container}/workspaces/p"),
            remote("dev-container+/home/u/p", "/workspaces/p"),
        ),
        (
            format!("vscode-remote://dev-container%2B{container}@ssh-remote%2Bbox/w"),
            remote("dev-container+/home/u/p@ssh-remote+box", "/w"),
        ),
        (
            "vscode-remote://tunnel%2Bmy-tunnel/home/u".to_owned(),
            remote("tunnel+my-tunnel", "/home/u"),
        ),
        ("vscode-vfs://github/owner/repo".to_owned(), remote("github", "/owner/repo")),
        ("/home/u/p".to_owned(), Workspace::here("/home/u/p")),
        (r"d:\work".to_owned(), Workspace::here(r"d:\work")),
    ];
    for (uri, expected) in cases {
        assert_eq!(workspace_of_uri(&uri), Some(expected), "{uri}");
    }
    for nothing in ["", "untitled:x", "relative/path", "vscode-remote://", "file://"] {
        assert_eq!(workspace_of_uri(nothing), None, "{nothing}");
    }
}

#[test]
fn a_file_names_a_folder_a_workspace_or_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("workspace.json");
    let read = |content: &str| {
        std::fs::write(&file, content).unwrap();
        assert_eq!(read_workspace_json(directory.path()), read_workspace_json(&file));
        read_workspace_json(&file)
    };
    assert_eq!(read_workspace_json(&file), None, "missing");
    assert_eq!(read(r#"{"folder":"file:///p"}"#), Some(Workspace::here("/p")));
    assert_eq!(
        read(r#"{"workspace":"file:///p/x.code-workspace"}"#),
        Some(Workspace::here("/p/x.code-workspace"))
    );
    assert_eq!(
        read(
            r#"{"workspace":{"id":"1","configPath":{"fsPath":"/p/x.code-workspace","scheme":"file"}}}"#
        ),
        Some(Workspace::here("/p/x.code-workspace"))
    );
    for nothing in ["", "{}", "[]", "{\"folder\":7}", "not json"] {
        assert_eq!(read(nothing), None, "{nothing}");
    }
}

#[test]
fn a_serialised_uri_is_read_from_any_of_its_fields() {
    let external = json!({"$mid": 1, "fsPath": "/p", "external": "file:///p%20q", "path": "/p q", "scheme": "file"});
    assert_eq!(workspace_of_json(&external), Some(Workspace::here("/p q")));
    assert_eq!(
        workspace_of_json(&json!({"fsPath": r"c:\p", "path": "/c:/p"})),
        Some(Workspace::here(r"c:\p"))
    );
    let over_ssh = json!({"scheme": "vscode-remote", "authority": "ssh-remote+box", "path": "/p", "fsPath": "/p"});
    assert_eq!(workspace_of_json(&over_ssh), Some(remote("ssh-remote+box", "/p")));
    assert_eq!(workspace_of_json(&json!(null)), None);
}

#[test]
fn a_fifo_in_place_of_the_file_is_not_opened() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("workspace.json");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(read_workspace_json(&fifo), None);
}

proptest! {
    #[test]
    fn no_text_makes_it_fail(text in "\\PC{0,40}", scheme in "(file|vscode-remote|x)?") {
        let _read = (workspace_of_uri(&text), workspace_of_uri(&format!("{scheme}://{text}")));
    }
}
