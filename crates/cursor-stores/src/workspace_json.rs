//! Finds a workspace's folder from `workspace.json` and from the URIs that the IDE writes, in all their forms.

use std::path::Path;

use serde_json::Value as Json;

use crate::lenient_json;
use crate::model::{Workspace, WorkspacePlace};
use crate::plain_file;

const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Reads the `workspace.json` of a directory below `workspaceStorage`. Takes the file or its directory. `None` if there
/// is no such file, or it names no folder.
pub(crate) fn read_workspace_json(path: &Path) -> Option<Workspace> {
    let file = if path.is_dir() { path.join("workspace.json") } else { path.to_owned() };
    let bytes = plain_file::read_at_most(&file, MAX_FILE_BYTES).ok()?;
    let json = lenient_json::parse(&bytes).ok()?;
    ["folder", "workspace", "configuration"].iter().find_map(|name| workspace_of_json(&json[name]))
}

/// Reads a URI: a string, or an object in the IDE's own form.
pub(crate) fn workspace_of_json(json: &Json) -> Option<Workspace> {
    match json {
        Json::String(uri) => workspace_of_uri(uri),
        Json::Object(fields) => {
            let text = |name: &str| fields.get(name).and_then(Json::as_str);
            let is_remote = text("scheme").is_some_and(|scheme| scheme != "file");
            text("external")
                .and_then(workspace_of_uri)
                .or_else(|| fields.get("configPath").and_then(workspace_of_json))
                .or_else(|| fields.get("uri").and_then(workspace_of_json))
                .or_else(|| {
                    let authority = text("authority").filter(|authority| !authority.is_empty());
                    match (is_remote, authority, text("path")) {
                        (true, Some(authority), Some(path)) => {
                            let place = WorkspacePlace::Remote(remote_name(&decode(authority)));
                            Some(Workspace { path: path.to_owned(), place })
                        }
                        _ => None,
                    }
                })
                .or_else(|| text("fsPath").or_else(|| text("path")).and_then(workspace_of_uri))
        }
        _ => None,
    }
}

/// Reads the URI of a folder or of a `.code-workspace` file, or a plain path.
///
/// Parsed by hand, because URL parsers reject the `%2B` in the host of a remote URI.
pub(crate) fn workspace_of_uri(uri: &str) -> Option<Workspace> {
    let Some((scheme, rest)) = uri.split_once("://") else {
        return match uri.strip_prefix("file:") {
            Some(path) => workspace_of_path(&decode(path)),
            None => workspace_of_path(uri),
        };
    };
    let (authority, path) = match rest.find('/') {
        Some(slash) => rest.split_at(slash),
        None => (rest, ""),
    };
    let (authority, path) = (decode(authority), decode(path));
    if scheme == "file" {
        return if authority.is_empty() || authority == "localhost" {
            workspace_of_path(windows_path(&path).as_deref().unwrap_or(&path))
        } else {
            workspace_of_path(&format!(r"\\{authority}{}", path.replace('/', r"\")))
        };
    }
    let path = if path.is_empty() { "/".to_owned() } else { path };
    (!authority.is_empty())
        .then(|| Workspace { path, place: WorkspacePlace::Remote(remote_name(&authority)) })
}

/// Reads a path from any operating system. A Windows path into WSL becomes the path on the WSL machine.
fn workspace_of_path(path: &str) -> Option<Workspace> {
    if let Some(share) = path.strip_prefix(r"\\") {
        let mut steps = share.split(['\\', '/']);
        let host = steps.next().unwrap_or_default().to_ascii_lowercase();
        if matches!(host.as_str(), "wsl.localhost" | "wsl$")
            && let Some(machine) = steps.next().filter(|machine| !machine.is_empty())
        {
            let steps: Vec<&str> = steps.filter(|step| !step.is_empty()).collect();
            let place = WorkspacePlace::Remote(format!("wsl+{machine}"));
            return Some(Workspace { path: format!("/{}", steps.join("/")), place });
        }
        return (!host.is_empty()).then(|| Workspace::here(path));
    }
    let is_path = path.starts_with('/') || has_drive(path);
    is_path.then(|| Workspace::here(path))
}

/// Reads `/c:/Users/me`, the path in a URI that Windows wrote.
fn windows_path(path: &str) -> Option<String> {
    let path = path.strip_prefix('/')?;
    has_drive(path).then(|| path.replace('/', r"\"))
}

fn has_drive(path: &str) -> bool {
    matches!(path.as_bytes(), [letter, b':', b'/' | b'\\', ..] if letter.is_ascii_alphabetic())
        || matches!(path.as_bytes(), [letter, b':'] if letter.is_ascii_alphabetic())
}

/// Returns the name of a remote machine. Decodes a host that is written in hexadecimal.
fn remote_name(authority: &str) -> String {
    // A container on another machine is `dev-container+…@ssh-remote+…`. A user name before a host also has an `@`.
    for separator in ["@ssh-remote+", "@wsl+", "@tunnel+"] {
        if let Some(at) = authority.find(separator) {
            let (inner, outer) = authority.split_at(at);
            return format!("{}@{}", remote_name(inner), remote_name(&outer[1..]));
        }
    }
    let Some((kind, host)) = authority.split_once('+') else { return authority.to_owned() };
    match readable_host(host) {
        Some(host) => format!("{kind}+{host}"),
        None => authority.to_owned(),
    }
}

fn readable_host(host: &str) -> Option<String> {
    // Shorter hosts are names that happen to look like hexadecimal, such as `cafe`.
    if host.len() < 8 {
        return None;
    }
    let text = String::from_utf8(hex::decode(host).ok()?).ok()?;
    if text.chars().any(char::is_control) {
        return None;
    }
    let Ok(json) = serde_json::from_str::<Json>(&text) else { return Some(text) };
    let name = ["hostName", "hostPath", "host", "containerName", "name"]
        .iter()
        .find_map(|name| json[name].as_str());
    let Some(name) = name else { return Some(text) };
    let user = json["user"].as_str().map(|user| format!("{user}@")).unwrap_or_default();
    let port = json["port"].as_u64().map(|port| format!(":{port}")).unwrap_or_default();
    Some(format!("{user}{name}{port}"))
}

/// Decodes `%2B` and other escapes. Everything else stays unchanged.
pub(crate) fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let escaped = match tail {
            [high, low, ..] if *first == b'%' => hex_digit(*high).zip(hex_digit(*low)),
            _ => None,
        };
        match escaped {
            Some((high, low)) => {
                bytes.push(high << 4 | low);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
#[path = "workspace_json_tests.rs"]
mod tests;
