//! A stream with the mix of the captured ones: kinds, their shares and their sizes.
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
    fn line(&mut self, line: &Value) -> anyhow::Result<()> {
        let line = line.to_string();
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
        self.line(&json!({"type":"system","subtype":"init","apiKeySource":"login","cwd":WORKSPACE,"session_id":SESSION,"model":"GPT-5 Mini","permissionMode":"default"}))?;
        self.line(&json!({"type":"user","message":{"role":"user","content":[{"type":"text","text":prompt}]},"session_id":SESSION}))?;
        for _ in 0..49 {
            let text = self.words.text(1);
            self.line(&json!({"type":"thinking","subtype":"delta","text":text,"session_id":SESSION,"timestamp_ms":now}))?;
        }
        self.line(&json!({"type":"thinking","subtype":"completed","session_id":SESSION,"timestamp_ms":now}))?;
        let said = self.words.text(16);
        self.line(&json!({"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":said}]},"session_id":SESSION,"model_call_id":format!("{request}-0-3542"),"timestamp_ms":now}))?;
        self.shell(&request, now)?;
        // Every second turn also has one of the rarer tools, in turn.
        match self.lines % 6 {
            0 => self.file_tool(&request, now, "readToolCall", 5)?,
            1 => self.file_tool(&request, now, "editToolCall", 12)?,
            2 => self.rejected_fetch(&request, now)?,
            _ => {}
        }
        let answer = self.words.text(20);
        self.line(&json!({"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":answer}]},"session_id":SESSION}))?;
        let result = said + &answer;
        self.line(&json!({"type":"result","subtype":"success","duration_ms":16878,"duration_api_ms":16878,"is_error":false,"result":result,"session_id":SESSION,"request_id":request,"usage":{"inputTokens":14921,"outputTokens":806,"cacheReadTokens":51840,"cacheWriteTokens":0}}))
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
        let query = json!({"type":"interaction_query","subtype":"request","query_type":"webFetchRequestQuery","query":{"id":0,"webFetchRequestQuery":{"args":args,"skipApproval":false}},"session_id":SESSION,"timestamp_ms":now});
        let response = json!({"type":"interaction_query","subtype":"response","query_type":"webFetchRequestQuery","response":{"id":0,"webFetchRequestResponse":{"rejected":{"reason":"User Rejected"}}},"session_id":SESSION,"timestamp_ms":now});
        self.line(&query)?;
        self.line(&response)?;
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
            self.line(&json!({"type":"tool_call","subtype":phase,"call_id":id,"tool_call":{key:payload,"hookAdditionalContexts":[],"toolCallId":id,"startedAtMs":now.to_string()},"model_call_id":format!("{request}-0-3542"),"session_id":SESSION,"timestamp_ms":now}))?;
        }
        Ok(())
    }

    fn call_id(&mut self) -> String {
        format!("call_{:024}\nfc_{:050x}", self.words.next(), self.words.next())
    }
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
