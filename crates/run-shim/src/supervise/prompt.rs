//! Writes the prompt to the agent and closes its stdin: an agent whose stdin stays open may never exit.

use run_protocol::RunEvent;
use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio::sync::mpsc;

/// Runs as its own task, because writing a prompt longer than the pipe waits until the agent reads it.
pub(crate) async fn send(prompt: Vec<u8>, mut stdin: ChildStdin, events: mpsc::Sender<RunEvent>) {
    // An agent that ends early does not read its prompt. Its exit says more than this error.
    if stdin.write_all(&prompt).await.is_ok() && stdin.shutdown().await.is_ok() {
        drop(stdin);
        events.send(RunEvent::PromptSent { length: prompt.len() as u64 }).await.ok();
    }
}
