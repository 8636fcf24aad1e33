//! `cli-config.json` and `agent-cli-state.json`: the agent's settings in its private root.

use serde_json::{Value, json};

use crate::json_file;

/// The settings that Caretaker controls. The agent adds its own when it rewrites the file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CliConfig {
    /// Permission entries such as `Shell(ls)` or `Mcp(server:tool)`.
    pub allow: Vec<String>,
    /// Wins over `allow`, and over `--force`.
    pub deny: Vec<String>,
    pub approval_mode: ApprovalMode,
    pub agent_http: AgentHttp,
}

/// How to treat a tool call that no entry mentions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ApprovalMode {
    /// Runs only allowed calls. In headless mode, the agent rejects everything else immediately.
    #[default]
    Allowlist,
    /// Runs everything that is not denied.
    Unrestricted,
}

/// The HTTP version between the agent and its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AgentHttp {
    #[default]
    AgentDecides,
    /// For proxies that do not support HTTP/2.
    Http1,
}

impl CliConfig {
    /// Returns the bytes of `cli-config.json`.
    pub fn to_json(&self) -> Vec<u8> {
        let approval_mode = match self.approval_mode {
            ApprovalMode::Allowlist => "allowlist",
            ApprovalMode::Unrestricted => "unrestricted",
        };
        let mut config = json!({
            "version": 1,
            "editor": { "vimMode": false },
            "permissions": { "allow": self.allow, "deny": self.deny },
            "approvalMode": approval_mode,
            // Cursor's sandbox cannot start inside ours, and every shell call would fail.
            "sandbox": { "mode": "disabled" },
            // Commits belong to the user, so the agent must not add its name unasked.
            "attribution": { "attributeCommitsToAgent": false, "attributePRsToAgent": false },
        });
        if self.agent_http == AgentHttp::Http1 {
            config["network"] = json!({ "useHttp1ForAgent": true });
        }
        json_file::to_bytes(&config)
    }
}

/// Returns the permission entry for all tools of an MCP server. Approving the server alone does not allow its tools.
pub fn every_tool_of(server: &str) -> String {
    format!("Mcp({server}:*)")
}

/// Returns the bytes of `agent-cli-state.json`, which saves the agent a migration on its first start.
pub fn agent_cli_state_json() -> Vec<u8> {
    let state: Value = json!({ "version": 1, "hasClearedLegacyStatsigFields": true });
    json_file::to_bytes(&state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn the_default_configuration_allows_nothing_by_itself() {
        let expected = r#"{
  "version": 1,
  "editor": {
    "vimMode": false
  },
  "permissions": {
    "allow": [],
    "deny": []
  },
  "approvalMode": "allowlist",
  "sandbox": {
    "mode": "disabled"
  },
  "attribution": {
    "attributeCommitsToAgent": false,
    "attributePRsToAgent": false
  }
}
"#;
        assert_eq!(String::from_utf8(CliConfig::default().to_json()).unwrap(), expected);
    }

    #[test]
    fn permissions_mode_and_http_are_written_as_asked() {
        let config = CliConfig {
            allow: vec![every_tool_of("caretaker")],
            deny: vec!["Read(**/.env)".to_owned()],
            approval_mode: ApprovalMode::Unrestricted,
            agent_http: AgentHttp::Http1,
        };
        let written: Value = serde_json::from_slice(&config.to_json()).unwrap();
        assert_eq!(
            written["permissions"],
            json!({"allow": ["Mcp(caretaker:*)"], "deny": ["Read(**/.env)"]})
        );
        assert_eq!(written["approvalMode"], "unrestricted");
        assert_eq!(written["network"], json!({"useHttp1ForAgent": true}));
    }

    #[test]
    fn the_state_file_skips_the_migration() {
        let written: Value = serde_json::from_slice(&agent_cli_state_json()).unwrap();
        assert_eq!(written, json!({"version": 1, "hasClearedLegacyStatsigFields": true}));
    }
}
