//! Arbitrary values in the IDE's databases: composers, bubbles, blobs, items of workspaces.

#![no_main]

mod every_reading;

use libfuzzer_sys::fuzz_target;
use store_fixtures::ide::IdeHome;
use store_fixtures::ide_old::{StateDirectory, CHATS, COMPOSERS, PROMPTS, SESSIONS};
use store_fixtures::Closing;

fuzz_target!(|input: [Vec<u8>; 6]| {
    let [composer, bubble, blob, item, old, folder] = input;
    let home = tempfile::tempdir().expect("a directory");
    let user_dir = home.path().join("User");
    let ide = IdeHome::new(&user_dir);
    ide.put_bytes("composerData:c", &composer);
    ide.put_bytes("bubbleId:c:b", &bubble);
    ide.put_bytes("composerData:d", br#"{"composerId":"d","fullConversationHeadersOnly":[{"bubbleId":"b","type":2}],"createdAt":1}"#);
    ide.put_bytes("bubbleId:d:b", &bubble);
    ide.put_bytes("agentKv:checkpoint:d", &blob);
    ide.put_agent_blob(&blob);
    if let Ok(item) = serde_json::from_slice(&item) {
        ide.put_item("composer.composerHeaders", &item);
    }
    ide.close(Closing::Clean);
    let workspace = StateDirectory::workspace(&user_dir, "0123456789abcdef0123456789abcdef");
    workspace.folder(&String::from_utf8_lossy(&folder));
    let value = rusqlite::types::Value::Blob(old);
    let rows = [CHATS, COMPOSERS, PROMPTS, SESSIONS].map(|key| (key, value.clone()));
    workspace.raw_rows(&rows, Closing::Clean);
    every_reading::read_everything(home.path());
});
