//! Arguments and results of the tools whose shape is known, parsed on demand from the raw values of a [`ToolCall`].

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lines::lenient::{lenient, shape_of_object};

/// Typed views of raw arguments and results. A field that is absent or has a different shape is `None`.
macro_rules! details {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $kind:ident = $key:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq, Deserialize)]
        #[serde(default, bound(deserialize = "'de: 'a"))]
        pub struct $name<'a> {
            $(
                $(#[$field_doc])*
                #[serde(rename = $key, deserialize_with = "lenient")]
                pub $field: details!(@type $kind),
            )*
        }

        impl<'a> $name<'a> {
            /// Parses the known fields of `raw`. All are absent if `raw` is not an object.
            pub fn read(raw: &'a RawValue) -> Self {
                serde_json::from_str(raw.get()).unwrap_or_default()
            }
        }
    )*};
    (@type text) => { Option<Cow<'a, str>> };
    (@type number) => { Option<i64> };
    (@type flag) => { Option<bool> };
    (@type location) => { Option<OutputLocation<'a>> };
}

details! {
    /// Arguments of `shell`.
    ShellArgs {
        command: text = "command",
        working_directory: text = "workingDirectory",
        timeout_ms: number = "timeout",
        hard_timeout_ms: number = "hardTimeout",
        description: text = "description",
        is_background: flag = "isBackground",
    }

    /// The result of `shell`: all of it for `success` and `failure`, a part for `timeout`, `rejected` and `spawnError`.
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
        /// The file with the output, if it is over the agent's threshold.
        output_location: location = "outputLocation",
    }

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

    /// The result of a successful `read`.
    ReadSuccess {
        path: text = "path",
        content: text = "content",
        total_lines: number = "totalLines",
        file_size: number = "fileSize",
        is_empty: flag = "isEmpty",
        exceeded_limit: flag = "exceededLimit",
    }

    /// The result of a successful `edit`, without its two full copies of the file.
    EditSuccess {
        path: text = "path",
        lines_added: number = "linesAdded",
        lines_removed: number = "linesRemoved",
        diff: text = "diffString",
    }

    /// Arguments of `mcp`.
    McpArgs {
        name: text = "name",
        provider_identifier: text = "providerIdentifier",
        tool_name: text = "toolName",
    }

    /// Arguments of `task`: a sub-agent.
    TaskArgs {
        description: text = "description",
        prompt: text = "prompt",
        model: text = "model",
        agent_id: text = "agentId",
    }

    /// The result of `rejected`, `error` and `permissionDenied`: why the call did not run.
    RejectedCall {
        reason: text = "reason",
        error: text = "error",
        error_message: text = "errorMessage",
    }
}

/// The result of a successful `mcp` call. The server itself may still report an error.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct McpSuccess {
    #[serde(rename = "isError", deserialize_with = "lenient")]
    pub is_error: Option<bool>,
}

impl McpSuccess {
    /// Parses the known fields of `raw`.
    pub fn read(raw: &RawValue) -> Self {
        serde_json::from_str(raw.get()).unwrap_or_default()
    }
}

/// The file with the output, if it is over the agent's threshold.
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
