//! Files that other programs obey because of their names.

use run_protocol::FindingKind;

use crate::tree_path::TreePath;

/// Returns the kind of program that obeys a file with this name.
pub(crate) fn known_name(path: &TreePath) -> Option<FindingKind> {
    let text = String::from_utf8_lossy(path.as_bytes()).to_lowercase();
    let names: Vec<&str> = text.split('/').collect();
    let name = *names.last()?;
    let is_in = |directory: &str| names[..names.len() - 1].contains(&directory);
    let begins = |start: &str| text.starts_with(start);

    if is_in(".husky")
        || is_in(".githooks")
        || matches!(name, ".pre-commit-config.yaml" | "lefthook.yml")
    {
        return Some(FindingKind::Hook);
    }
    if matches!(name, ".gitattributes" | ".gitmodules") {
        return Some(FindingKind::GitConfig);
    }
    let is_ci = begins(".github/workflows/")
        || begins(".github/actions/")
        || begins(".circleci/")
        || begins(".buildkite/")
        || begins(".woodpecker/")
        || begins(".forgejo/workflows/")
        || begins(".gitea/workflows/")
        || matches!(
            name,
            ".gitlab-ci.yml"
                | ".travis.yml"
                | ".drone.yml"
                | "jenkinsfile"
                | "azure-pipelines.yml"
                | "bitbucket-pipelines.yml"
                | ".woodpecker.yml"
                | ".cirrus.yml"
        );
    if is_ci {
        return Some(FindingKind::Ci);
    }
    let is_editors = is_in(".vscode")
        || is_in(".idea")
        || is_in(".zed")
        || is_in(".devcontainer")
        || name.ends_with(".code-workspace")
        || matches!(name, ".exrc" | ".nvimrc" | ".dir-locals.el" | ".editorconfig");
    if is_editors {
        return Some(FindingKind::Editor);
    }
    if matches!(
        name,
        ".envrc"
            | ".env"
            | ".mise.toml"
            | "mise.toml"
            | ".tool-versions"
            | ".npmrc"
            | ".yarnrc.yml"
    ) || is_in(".cargo") && name.starts_with("config")
    {
        return Some(FindingKind::Environment);
    }
    let is_agents = is_in(".cursor")
        || is_in(".claude")
        || matches!(
            name,
            ".mcp.json"
                | ".cursorignore"
                | ".cursorindexingignore"
                | ".cursorrules"
                | "agents.md"
                | "claude.md"
        );
    is_agents.then_some(FindingKind::AgentConfig)
}
