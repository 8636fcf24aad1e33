//! A stream with the same mix as captured streams: kinds, their shares, their sizes and the order of their keys.
//!
//! Per 347 lines the captures have 294 thinking deltas, 9 tool calls (6 shell, the others read, edit and web fetch), 11
//! assistant segments, 6 turns. Lines are 189 bytes long on average; thinking deltas are 60 % of the bytes, tool calls
//! 26 %.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::Value;

pub(crate) struct Corpus {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) lines: u64,
}

/// Writes at least `size` bytes, always the same, ending with a whole turn.
pub(crate) fn write(path: &Path, size: usize) -> anyhow::Result<Corpus> {
    let file = File::create(path).with_context(|| format!("cannot create `{}`", path.display()))?;
    let mut corpus = Writer { out: BufWriter::new(file), bytes: 0, lines: 0, random: 1 };
    while corpus.bytes < size as u64 {
        corpus.turn()?;
    }
    corpus.out.flush()?;
    Ok(Corpus { path: path.to_owned(), bytes: corpus.bytes, lines: corpus.lines })
}

// Each line of the stream. `$A`, `$B` and so on stand for strings, `$N` for the time and `$S` for the session.
const INIT: &str = r#"{"type":"system","subtype":"init","apiKeySource":"login","cwd":"/home/someone/projects/workspace","session_id":$S,"model":"GPT-5 Mini","permissionMode":"default"}"#;
const USER: &str = r#"{"type":"user","message":{"role":"user","content":[{"type":"text","text":$A}]},"session_id":$S}"#;
const THINKING: &str =
    r#"{"type":"thinking","subtype":"delta","text":$A,"session_id":$S,"timestamp_ms":$N}"#;
const THOUGHT: &str =
    r#"{"type":"thinking","subtype":"completed","session_id":$S,"timestamp_ms":$N}"#;
const SEGMENT: &str = r#"{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":$A}]},"session_id":$S,"model_call_id":$B,"timestamp_ms":$N}"#;
const ANSWER: &str = r#"{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":$A}]},"session_id":$S}"#;
const RESULT: &str = r#"{"type":"result","subtype":"success","duration_ms":16878,"duration_api_ms":16878,"is_error":false,"result":$A,"session_id":$S,"request_id":$B,"usage":{"inputTokens":14921,"outputTokens":806,"cacheReadTokens":51840,"cacheWriteTokens":0}}"#;
/// `$P` stands for the tool's own object.
const CALL: &str = r#"{"type":"tool_call","subtype":$C,"call_id":$D,"tool_call":{$P,"hookAdditionalContexts":[],"toolCallId":$D,"startedAtMs":"$N"},"model_call_id":$B,"session_id":$S,"timestamp_ms":$N}"#;
const SHELL: [&str; 2] = [
    r#""shellToolCall":{"args":{"command":$E,"workingDirectory":"","timeout":30000,"toolCallId":$D,"simpleCommands":["curl"],"hasInputRedirect":false,"hasOutputRedirect":false,"parsingResult":{"parsingFailed":false,"executableCommands":[{"name":"curl","args":[{"type":"word","value":"-sI"}],"fullText":$E}],"hasRedirects":false,"hasCommandSubstitution":false,"redirects":[]},"fileOutputThresholdBytes":"40000","isBackground":false,"skipApproval":false,"timeoutBehavior":"TIMEOUT_BEHAVIOR_BACKGROUND"}$R}"#,
    r#","result":{"success":{"command":$E,"workingDirectory":"","exitCode":0,"signal":"","stdout":$F,"stderr":"","executionTime":1510,"interleavedOutput":$F,"localExecutionTimeMs":354},"isBackground":false}"#,
];
const FILE_RESULT: &str = r#","result":{"success":{"path":"/home/someone/projects/workspace/notes.txt","linesAdded":2,"linesRemoved":0,"diffString":$F,"afterFullFileContent":$F}}"#;
const READ: [&str; 2] = [
    r#""readToolCall":{"args":{"path":"/home/someone/projects/workspace/notes.txt"}$R}"#,
    FILE_RESULT,
];
const EDIT: [&str; 2] = [
    r#""editToolCall":{"args":{"path":"/home/someone/projects/workspace/notes.txt"}$R}"#,
    FILE_RESULT,
];
const FETCH: [&str; 2] = [
    r#""webFetchToolCall":{"args":{"url":"https://example.com","toolCallId":$D}$R}"#,
    r#","result":{"rejected":{"reason":"User Rejected"}}"#,
];
const QUERY: &str = r#"{"type":"interaction_query","subtype":"request","query_type":"webFetchRequestQuery","query":{"id":0,"webFetchRequestQuery":{"args":{"url":"https://example.com"},"skipApproval":false}},"session_id":$S,"timestamp_ms":$N}"#;
const RESPONSE: &str = r#"{"type":"interaction_query","subtype":"response","query_type":"webFetchRequestQuery","response":{"id":0,"webFetchRequestResponse":{"rejected":{"reason":"User Rejected"}}},"session_id":$S,"timestamp_ms":$N}"#;

struct Writer {
    out: BufWriter<File>,
    bytes: u64,
    lines: u64,
    /// The state of a small random generator (xorshift).
    random: u64,
}

impl Writer {
    fn line(&mut self, template: &str, values: &[(&str, &str)]) -> anyhow::Result<()> {
        let now = (1_789_644_650_367 + self.lines).to_string();
        let mut line =
            template.replace("$S", r#""59d297d1-a399-4eee-83a9-abeafa321dcc""#).replace("$N", &now);
        for (name, value) in values {
            line = line.replace(name, &Value::from(*value).to_string());
        }
        writeln!(self.out, "{line}")?;
        self.bytes += line.len() as u64 + 1;
        self.lines += 1;
        Ok(())
    }

    fn turn(&mut self) -> anyhow::Result<()> {
        let request = format!("0ca27273-7f03-4b9d-bbff-{:012x}", self.lines);
        let model_call = format!("{request}-0-3542");
        let (prompt, said, answer) = (self.words(18), self.words(16), self.words(20));
        self.line(INIT, &[])?;
        self.line(USER, &[("$A", &prompt)])?;
        for _ in 0..49 {
            let token = self.words(1);
            self.line(THINKING, &[("$A", &token)])?;
        }
        self.line(THOUGHT, &[])?;
        self.line(SEGMENT, &[("$A", &said), ("$B", &model_call)])?;
        self.call(SHELL, &model_call, 20)?;
        // About half of the turns also call one of the rarer tools.
        match self.lines % 6 {
            0 => self.call(READ, &model_call, 5)?,
            1 => self.call(EDIT, &model_call, 12)?,
            2 => {
                self.line(QUERY, &[])?;
                self.line(RESPONSE, &[])?;
                self.call(FETCH, &model_call, 0)?;
            }
            _ => {}
        }
        self.line(ANSWER, &[("$A", &answer)])?;
        self.line(RESULT, &[("$A", &(said + &answer)), ("$B", &request)])
    }

    fn call(
        &mut self,
        [tool, result]: [&str; 2],
        model_call: &str,
        n_words: usize,
    ) -> anyhow::Result<()> {
        let id = format!("call_{:024}\nfc_{:050x}", self.random(), self.random());
        let (command, output) = (self.words(4), self.words(n_words).replace(' ', "\n"));
        for (phase, result) in [("started", ""), ("completed", result)] {
            let template = CALL.replace("$P", &tool.replace("$R", result));
            let values = [("$B", model_call), ("$C", phase), ("$D", &id), ("$E", &command)];
            self.line(&template, &[&values[..], &[("$F", &output)]].concat())?;
        }
        Ok(())
    }

    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn words(&mut self, n_words: usize) -> String {
        const WORDS: &str =
            " the| developer|'s| file|\n\nI| need| **plan**| `notes.txt`| —| to| run| \"sleep\"";
        let words: Vec<&str> = WORDS.split('|').collect();
        (0..n_words).map(|_| words[(self.random() % words.len() as u64) as usize]).collect()
    }
}
