//! A stream with the mix of the captured ones: kinds, their shares, their sizes and the order of their keys.
//!
//! Per 347 lines the captures have 294 thinking deltas, 9 tool calls (6 shell, the others read, edit and web fetch), 11
//! assistant segments, 6 turns. Lines are 189 bytes long on average; thinking deltas are 60 % of the bytes, tool calls
//! 26 %.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::{Value, json};

pub(crate) struct Corpus {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) lines: u64,
}

/// Writes at least `size` bytes, always the same ones, ending with a whole turn.
pub(crate) fn write(path: &Path, size: usize) -> anyhow::Result<Corpus> {
    let file =
        File::create(path).with_context(|| format!("`{}` cannot be made", path.display()))?;
    let mut corpus = Writer { out: BufWriter::new(file), bytes: 0, lines: 0, words: Words(1) };
    while corpus.bytes < size as u64 {
        corpus.turn()?;
    }
    corpus.out.flush()?;
    Ok(Corpus { path: path.to_owned(), bytes: corpus.bytes, lines: corpus.lines })
}

struct Writer {
    out: BufWriter<File>,
    bytes: u64,
    lines: u64,
    words: Words,
}

const SESSION: &str = "59d297d1-a399-4eee-83a9-abeafa321dcc";
const WORKSPACE: &str = "/home/someone/projects/workspace";

impl Writer {
    fn line(&mut self, fields: &[(&str, String)]) -> anyhow::Result<()> {
        let line = in_order(fields);
        self.out.write_all(line.as_bytes())?;
        self.out.write_all(b"\n")?;
        self.bytes += line.len() as u64 + 1;
        self.lines += 1;
        Ok(())
    }

    fn turn(&mut self) -> anyhow::Result<()> {
        let now = 1_789_644_650_367u64 + self.lines;
        let request = format!("0ca27273-7f03-4b9d-bbff-{:012x}", self.lines);
        let prompt = self.words.text(18);
        self.line(&[
            ("type", text("system")),
            ("subtype", text("init")),
            ("apiKeySource", text("login")),
            ("cwd", text(WORKSPACE)),
            ("session_id", text(SESSION)),
            ("model", text("GPT-5 Mini")),
            ("permissionMode", text("default")),
        ])?;
        self.line(&[
            ("type", text("user")),
            ("message", message("user", &prompt)),
            ("session_id", text(SESSION)),
        ])?;
        let thinking = |subtype| [("type", text("thinking")), ("subtype", text(subtype))];
        let closing = [("session_id", text(SESSION)), ("timestamp_ms", now.to_string())];
        for _ in 0..49 {
            let token = [("text", text(&self.words.text(1)))];
            self.line(&[&thinking("delta")[..], &token, &closing].concat())?;
        }
        self.line(&[thinking("completed"), closing.clone()].concat())?;
        let said = self.words.text(16);
        self.line(&[
            ("type", text("assistant")),
            ("message", message("assistant", &said)),
            ("session_id", text(SESSION)),
            ("model_call_id", text(&format!("{request}-0-3542"))),
            ("timestamp_ms", now.to_string()),
        ])?;
        self.shell(&request, now)?;
        // Every second turn also has one of the rarer tools, in turn.
        match self.lines % 6 {
            0 => self.file_tool(&request, now, "readToolCall", 5)?,
            1 => self.file_tool(&request, now, "editToolCall", 12)?,
            2 => self.rejected_fetch(&request, now)?,
            _ => {}
        }
        let answer = self.words.text(20);
        self.line(&[
            ("type", text("assistant")),
            ("message", message("assistant", &answer)),
            ("session_id", text(SESSION)),
        ])?;
        let usage = json!({"inputTokens":14921,"outputTokens":806,"cacheReadTokens":51840,"cacheWriteTokens":0});
        self.line(&[
            ("type", text("result")),
            ("subtype", text("success")),
            ("duration_ms", 16878.to_string()),
            ("duration_api_ms", 16878.to_string()),
            ("is_error", false.to_string()),
            ("result", text(&(said + &answer))),
            ("session_id", text(SESSION)),
            ("request_id", text(&request)),
            ("usage", usage.to_string()),
        ])
    }

    fn shell(&mut self, request: &str, now: u64) -> anyhow::Result<()> {
        let id = self.call_id();
        let command = self.words.text(4);
        let output = self.words.text(20).replace(' ', "\n");
        let args = json!({"command":command,"workingDirectory":"","timeout":30000,"toolCallId":id,"simpleCommands":["curl"],"hasInputRedirect":false,"hasOutputRedirect":false,"parsingResult":{"parsingFailed":false,"executableCommands":[{"name":"curl","args":[{"type":"word","value":"-sI"}],"fullText":command}],"hasRedirects":false,"hasCommandSubstitution":false,"redirects":[]},"fileOutputThresholdBytes":"40000","isBackground":false,"skipApproval":false,"timeoutBehavior":"TIMEOUT_BEHAVIOR_BACKGROUND"});
        let result = json!({"success":{"command":command,"workingDirectory":"","exitCode":0,"signal":"","stdout":output,"stderr":"","executionTime":1510,"interleavedOutput":output,"localExecutionTimeMs":354},"isBackground":false});
        self.call(
            &id,
            "shellToolCall",
            request,
            now,
            args.clone(),
            json!({"args":args,"result":result}),
        )
    }

    fn file_tool(
        &mut self,
        request: &str,
        now: u64,
        key: &str,
        words: usize,
    ) -> anyhow::Result<()> {
        let id = self.call_id();
        let content = self.words.text(words);
        let args = json!({"path":format!("{WORKSPACE}/notes.txt")});
        let result = json!({"success":{"path":format!("{WORKSPACE}/notes.txt"),"linesAdded":2,"linesRemoved":0,"diffString":content,"afterFullFileContent":content}});
        self.call(&id, key, request, now, args.clone(), json!({"args":args,"result":result}))
    }

    fn rejected_fetch(&mut self, request: &str, now: u64) -> anyhow::Result<()> {
        let id = self.call_id();
        let args = json!({"url":"https://example.com","toolCallId":id});
        let query = json!({"id":0,"webFetchRequestQuery":{"args":args,"skipApproval":false}});
        let response =
            json!({"id":0,"webFetchRequestResponse":{"rejected":{"reason":"User Rejected"}}});
        for (subtype, key, body) in
            [("request", "query", query), ("response", "response", response)]
        {
            self.line(&[
                ("type", text("interaction_query")),
                ("subtype", text(subtype)),
                ("query_type", text("webFetchRequestQuery")),
                (key, body.to_string()),
                ("session_id", text(SESSION)),
                ("timestamp_ms", now.to_string()),
            ])?;
        }
        self.call(
            &id,
            "webFetchToolCall",
            request,
            now,
            args,
            json!({"result":{"rejected":{"reason":"User Rejected"}}}),
        )
    }

    fn call(
        &mut self,
        id: &str,
        key: &str,
        request: &str,
        now: u64,
        args: Value,
        completed: Value,
    ) -> anyhow::Result<()> {
        for (phase, payload) in [("started", json!({ "args": args })), ("completed", completed)] {
            let call = in_order(&[
                (key, payload.to_string()),
                ("hookAdditionalContexts", "[]".to_owned()),
                ("toolCallId", text(id)),
                ("startedAtMs", text(&now.to_string())),
            ]);
            self.line(&[
                ("type", text("tool_call")),
                ("subtype", text(phase)),
                ("call_id", text(id)),
                ("tool_call", call),
                ("model_call_id", text(&format!("{request}-0-3542"))),
                ("session_id", text(SESSION)),
                ("timestamp_ms", now.to_string()),
            ])?;
        }
        Ok(())
    }

    fn call_id(&mut self) -> String {
        format!("call_{:024}\nfc_{:050x}", self.words.next(), self.words.next())
    }
}

/// An object with its keys in the order in which the agent writes them, which `json!` does not keep in this build.
fn in_order(fields: &[(&str, String)]) -> String {
    let fields: Vec<String> =
        fields.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
    format!("{{{}}}", fields.join(","))
}

fn text(text: &str) -> String {
    Value::from(text).to_string()
}

fn message(role: &str, said: &str) -> String {
    let part = in_order(&[("type", text("text")), ("text", text(said))]);
    in_order(&[("role", text(role)), ("content", format!("[{part}]"))])
}

/// Deterministic words: a small generator (xorshift) is all the randomness that is needed.
struct Words(u64);

impl Words {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn text(&mut self, n_words: usize) -> String {
        const WORDS: [&str; 12] = [
            " the",
            " developer",
            "'s",
            " file",
            "\n\nI",
            " need",
            " **plan**",
            " `notes.txt`",
            " —",
            " to",
            " run",
            " \"sleep\"",
        ];
        (0..n_words).map(|_| WORDS[(self.next() % WORDS.len() as u64) as usize]).collect()
    }
}
