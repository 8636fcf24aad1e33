//! IDE databases with changed values: composers, bubbles, blobs, items, old panels, and their owners.

#![no_main]

mod changed_copy;
mod every_reading;

use std::sync::OnceLock;

use changed_copy::{Change, change_file, change_rows, copy};
use libfuzzer_sys::fuzz_target;
use store_fixtures::Closing;
use store_fixtures::ide::{IdeHome, plant};
use store_fixtures::ide_old::{StateDirectory, Storage, every_row};
use tempfile::TempDir;

const HASH: &str = "0123456789abcdef0123456789abcdef";

fn template() -> &'static TempDir {
    static TEMPLATE: OnceLock<TempDir> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let home = tempfile::tempdir().expect("a directory");
        let user_dir = home.path().join("User");
        plant(&user_dir, "planted");
        let old = StateDirectory::workspace(&user_dir, HASH);
        old.folder("file:///srv/app");
        old.rows(&every_row(&mut |field| format!("planted {field}")), Storage::Text, Closing::Clean);
        home
    })
}

fuzz_target!(|input: (Vec<Change>, Vec<Change>, Vec<Change>, Option<[Vec<u8>; 3]>)| {
    let (modern, old, folder, anything) = input;
    let home = copy(template().path());
    let user_dir = home.path().join("User");
    let global = user_dir.join("globalStorage/state.vscdb");
    let columns = [
        ("cursorDiskKV", "value"),
        ("cursorDiskKV", "value"),
        ("cursorDiskKV", "key"),
        ("ItemTable", "value"),
        ("composerHeaders", "value"),
        ("composerHeaders", "workspaceId"),
        ("composerHeaders", "recency"),
    ];
    change_rows(&global, &columns, &modern[..modern.len().min(8)]);
    let workspace = user_dir.join("workspaceStorage").join(HASH);
    change_rows(&workspace.join("state.vscdb"), &[("ItemTable", "value")], &old[..old.len().min(4)]);
    change_file(&workspace.join("workspace.json"), &folder[..folder.len().min(2)]);
    if let Some([composer, bubble, blob]) = anything {
        let ide = IdeHome::new(&user_dir);
        ide.put_bytes("composerData:c", &composer);
        ide.put_bytes("bubbleId:c:b", &bubble);
        let order = br#"{"composerId":"d","fullConversationHeadersOnly":[{"bubbleId":"b","type":2}],"createdAt":1}"#;
        ide.put_bytes("composerData:d", order);
        ide.put_bytes("bubbleId:d:b", &bubble);
        ide.put_bytes("agentKv:checkpoint:d", &blob);
        ide.put_agent_blob(&blob);
        ide.close(Closing::Clean);
    }
    every_reading::read_everything(home.path());
});
