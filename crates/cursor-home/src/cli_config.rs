//! `cli-config.json`, the project's `cli.json` and `agent-cli-state.json`: the agent's settings in a sandbox.

use run_protocol::AgentPolicy;
use serde_json::{Value, json};

use crate::json_file;

/// The settings that Caretaker controls. The agent adds its own when it rewrites the file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CliConfig {
    /// Permission entries such as `Shell(ls)` or `Mcp(server:tool)`.
    pub allow: Vec<String>,
    /// The user's rules. The deny entries win over `allow`, and over `--force`.
    pub policy: AgentPolicy,
}

impl CliConfig {
    /// Returns the bytes of `cli-config.json`.
    pub fn to_json(&self) -> Vec<u8> {
        let mut config = json!({
            "version": 1,
            "editor": { "vimMode": false },
            "permissions": self.permissions(),
            // Never the user's own mode: an unrestricted agent would ignore `--no-force`.
            "approvalMode": "allowlist",
            // Cursor's sandbox cannot start inside ours, and every shell call would fail.
            "sandbox": { "mode": "disabled" },
            // Commits belong to the user, so the agent must not add its name unasked.
            "attribution": { "attributeCommitsToAgent": false, "attributePRsToAgent": false },
        });
        let AgentPolicy { model, http1, account, .. } = &self.policy;
        for (key, value) in model {
            config[key] = value.clone();
        }
        if *http1 {
            config["network"] = json!({ "useHttp1ForAgent": true });
        }
        if let Some(account) = account {
            config["authInfo"] = account.clone();
        }
        json_file::to_bytes(&config)
    }

    /// Returns the bytes of the project's `.cursor/cli.json`, with the same permissions. The agent may rewrite its
    /// `cli-config.json`, but not this file, and the project's lists replace those of `cli-config.json`.
    pub fn to_project_json(&self) -> Vec<u8> {
        json_file::to_bytes(&json!({ "permissions": self.permissions() }))
    }

    fn permissions(&self) -> Value {
        json!({ "allow": self.allow, "deny": self.policy.deny })
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
    fn the_users_rules_are_in_both_files_and_the_other_settings_as_the_user_has_them() {
        let model = json!({ "modelId": "sonnet-4.6", "maxMode": true });
        let policy = AgentPolicy {
            deny: vec!["Read(**/.env)".to_owned()],
            model: [("model".to_owned(), model.clone())].into(),
            http1: true,
            account: Some(json!({ "activeTeamId": 7 })),
            ..AgentPolicy::default()
        };
        let config = CliConfig { allow: vec![every_tool_of("caretaker")], policy };
        let written: Value = serde_json::from_slice(&config.to_json()).unwrap();
        let permissions = json!({"allow": ["Mcp(caretaker:*)"], "deny": ["Read(**/.env)"]});
        assert_eq!(written["permissions"], permissions);
        assert_eq!(written["approvalMode"], "allowlist");
        assert_eq!(written["network"], json!({"useHttp1ForAgent": true}));
        assert_eq!(written["model"], model);
        assert_eq!(written["authInfo"], json!({"activeTeamId": 7}));
        let project: Value = serde_json::from_slice(&config.to_project_json()).unwrap();
        assert_eq!(project, json!({ "permissions": permissions }));
    }

    #[test]
    fn the_state_file_skips_the_migration() {
        let written: Value = serde_json::from_slice(&agent_cli_state_json()).unwrap();
        assert_eq!(written, json!({"version": 1, "hasClearedLegacyStatsigFields": true}));
    }
}
