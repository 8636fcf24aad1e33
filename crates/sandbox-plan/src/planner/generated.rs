//! The files in `/etc` that Caretaker writes. They contain only what a sandbox needs.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::profile::GeneratedFile;
use crate::request::SandboxUser;

/// The number that the kernel shows for users who have no number inside.
const NOBODY: u32 = 65534;

impl GeneratedFile {
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Passwd => "/etc/passwd",
            Self::Group => "/etc/group",
            Self::NameService => "/etc/nsswitch.conf",
            Self::Hosts => "/etc/hosts",
            Self::Resolver => "/etc/resolv.conf",
        }
    }

    pub(super) fn contents(self, user: &SandboxUser, home: &Path, hostname: &str) -> Vec<u8> {
        match self {
            Self::Passwd => passwd(user, home),
            Self::Group => group(user),
            Self::NameService => {
                b"passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\nprotocols: files\n"
                    .to_vec()
            }
            // One attempt is enough: if the shim does not answer immediately, it never will.
            Self::Resolver => b"nameserver 127.0.0.1\noptions timeout:5 attempts:1\n".to_vec(),
            Self::Hosts => {
                format!("127.0.0.1 localhost\n::1 localhost\n127.0.1.1 {hostname}\n").into_bytes()
            }
        }
    }
}

fn passwd(user: &SandboxUser, home: &Path) -> Vec<u8> {
    let mut text = Vec::new();
    if user.uid != 0 {
        text.extend_from_slice(b"root:x:0:0:root:/root:/usr/sbin/nologin\n");
    }
    text.extend_from_slice(format!("{}:x:{}:{}::", account(user), user.uid, user.gid).as_bytes());
    // The file's format cannot hold every path. Programs then use $HOME.
    let home = home.as_os_str().as_bytes();
    let fits = !home.iter().any(|byte| matches!(byte, b':' | b'\n'));
    text.extend_from_slice(if fits { home } else { b"/" });
    text.extend_from_slice(b":/bin/sh\n");
    if user.uid != NOBODY {
        let nobody = format!("nobody:x:{NOBODY}:{NOBODY}:nobody:/nonexistent:/usr/sbin/nologin\n");
        text.extend_from_slice(nobody.as_bytes());
    }
    text
}

fn group(user: &SandboxUser) -> Vec<u8> {
    let mut text = String::new();
    if user.gid != 0 {
        text.push_str("root:x:0:\n");
    }
    text.push_str(&format!("{}:x:{}:\n", account(user), user.gid));
    if user.gid != NOBODY {
        text.push_str(&format!("nogroup:x:{NOBODY}:\n"));
    }
    text.into_bytes()
}

/// Returns the user's name. Replaces a name that would break the file's format or belongs to another account.
fn account(user: &SandboxUser) -> &str {
    let name = user.name.as_str();
    let plain = |b: u8| b.is_ascii_graphic() && !matches!(b, b':' | b'/' | b',');
    let is_taken = (name == "root" && user.uid != 0) || name == "nobody";
    match !name.is_empty() && name.bytes().all(plain) && !is_taken {
        true => name,
        false if user.uid == 0 => "root",
        false => "agent",
    }
}
