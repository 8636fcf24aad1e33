//! Arguments and results of the tools whose shape is known, read on demand from what a [`ToolCall`] keeps raw.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lenient::{lenient, shape_of_object};

/// Reads a typed view of raw arguments or of an outcome's detail. Absent or differently shaped fields are `None`.
macro_rules! detail {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $kind:ident = $key:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq, Deserialize)]
        #[serde(default, bound(deserialize = "'de: 'a"))]
        pub struct $name<'a> {
            $(
                $(#[$field_doc])*
                #[serde(rename = $key, deserialize_with = "lenient")]
                pub $field: detail!(@type $kind),
            )*
        }

        impl<'a> $name<'a> {
            /// Reads what this type knows of `raw`; everything is absent where `raw` is no object.
            pub fn read(raw: &'a RawValue) -> Self {
                serde_json::from_str(raw.get()).unwrap_or_default()
            }
        }
    };
    (@type text) => { Option<Cow<'a, str>> };
    (@type number) => { Option<i64> };
    (@type flag) => { Option<bool> };
    (@type location) => { Option<OutputLocation<'a>> };
}

detail! {
    /// Arguments of `shell`.
    ShellArgs {
        command: text = "command",
        working_directory: text = "workingDirectory",
        timeout_ms: number = "timeout",
        hard_timeout_ms: number = "hardTimeout",
        description: text = "description",
        is_background: flag = "isBackground",
    }
}

detail! {
    /// Detail of a shell's `success` and `failure`, and what `timeout`, `rejected` and `spawnError` have of it.
    ShellOutput {
        command: text = "command",
        exit_code: number = "exitCode",
        signal: text = "signal",
        stdout: text = "stdout",
        stderr: text = "stderr",
        execution_time_ms: number = "executionTime",
        timeout_ms: number = "timeoutMs",
        reason: text = "reason",
        error: text = "error",
        /// Output over the threshold is spilled to a file.
        output_location: location = "outputLocation",
    }
}

detail! {
    /// Arguments of the tools that work on one file or directory.
    FileArgs {
        path: text = "path",
        pattern: text = "pattern",
        glob_pattern: text = "globPattern",
        target_directory: text = "targetDirectory",
        url: text = "url",
        query: text = "query",
        search_term: text = "searchTerm",
    }
}

detail! {
    /// Detail of `read`'s success.
    ReadSuccess {
        path: text = "path",
        content: text = "content",
        total_lines: number = "totalLines",
        file_size: number = "fileSize",
        is_empty: flag = "isEmpty",
        exceeded_limit: flag = "exceededLimit",
    }
}

detail! {
    /// Detail of `edit`'s success. The two full copies of the file that it carries are left where they are.
    EditSuccess {
        path: text = "path",
        lines_added: number = "linesAdded",
        lines_removed: number = "linesRemoved",
        diff: text = "diffString",
    }
}

detail! {
    /// Arguments of `mcp`.
    McpArgs {
        name: text = "name",
        provider_identifier: text = "providerIdentifier",
        tool_name: text = "toolName",
    }
}

detail! {
    /// Arguments of `task`: a sub-agent.
    TaskArgs {
        description: text = "description",
        prompt: text = "prompt",
        model: text = "model",
        agent_id: text = "agentId",
    }
}

detail! {
    /// Detail of `rejected`, `error`, `permissionDenied`: why it did not run.
    RejectedCall {
        reason: text = "reason",
        error: text = "error",
        error_message: text = "errorMessage",
    }
}

/// Detail of `mcp`'s success, which may itself report an error of the server's.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct McpSuccess {
    #[serde(rename = "isError", deserialize_with = "lenient")]
    pub is_error: Option<bool>,
}

impl McpSuccess {
    /// Reads what this type knows of `raw`.
    pub fn read(raw: &RawValue) -> Self {
        serde_json::from_str(raw.get()).unwrap_or_default()
    }
}

/// Where output over the threshold went.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct OutputLocation<'a> {
    #[serde(rename = "filePath", borrow, deserialize_with = "lenient")]
    pub file_path: Option<Cow<'a, str>>,
    #[serde(rename = "sizeBytes", deserialize_with = "lenient")]
    pub size_bytes: Option<i64>,
    #[serde(rename = "lineCount", deserialize_with = "lenient")]
    pub line_count: Option<i64>,
}

shape_of_object!(optional 'de, OutputLocation<'de>);

#[cfg(test)]
#[path = "tool_details_tests.rs"]
mod tests;
