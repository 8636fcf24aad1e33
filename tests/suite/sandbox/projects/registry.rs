//! A registry of packages on loopback.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::stage::{assert_exit, printed};

/// A registry. It serves files until the test ends.
pub(super) struct Registry {
    pub(super) address: String,
}

#[derive(Default)]
pub(super) struct Files {
    /// Contents by path.
    pub(super) made: BTreeMap<String, Vec<u8>>,
    /// A directory with more files.
    pub(super) directory: Option<PathBuf>,
}

impl Registry {
    /// Starts a registry whose files may contain its own address.
    pub(super) fn start(files: impl FnOnce(&str) -> Files) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let files = Arc::new(files(&address));
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let files = Arc::clone(&files);
                std::thread::spawn(move || answer(client, &files));
            }
        });
        Self { address }
    }
}

impl<const N: usize> From<[(&str, Vec<u8>); N]> for Files {
    fn from(made: [(&str, Vec<u8>); N]) -> Self {
        let made = made.map(|(path, content)| (path.to_owned(), content));
        Self { made: made.into(), directory: None }
    }
}

impl Files {
    fn read(&self, path: &str) -> Option<Vec<u8>> {
        let on_disk = || std::fs::read(self.directory.as_ref()?.join(path)).ok();
        self.made.get(path).cloned().or_else(on_disk)
    }
}

fn answer(mut client: TcpStream, files: &Files) -> Option<()> {
    let mut lines = BufReader::new(client.try_clone().ok()?).lines();
    let first = lines.next()?.ok()?;
    let path = first.split(' ').nth(1)?.trim_start_matches('/').to_owned();
    lines.map_while(Result::ok).find(String::is_empty)?;
    let (status, body) = match files.read(&path) {
        Some(body) => ("200 OK", body),
        None => ("404 Not Found", Vec::new()),
    };
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    client.write_all(head.as_bytes()).ok()?;
    client.write_all(&body).ok()
}

/// Packs a directory, and returns the archive and the checksum that `program` computes for it.
pub(super) fn packed(root: &Path, name: &str, program: &str) -> (Vec<u8>, String) {
    let archive = root.join(format!("{name}.tgz"));
    let packed =
        Command::new("tar").arg("czf").arg(&archive).arg("-C").arg(root).arg(name).output();
    assert_exit(&packed.unwrap(), 0);
    let sum = printed(&Command::new(program).arg(&archive).output().unwrap());
    (std::fs::read(archive).unwrap(), sum.split(' ').next().unwrap().to_owned())
}
