//! Arbitrary bytes through the whole parser: no panic and no lost line, wherever the pipe cuts.

#![no_main]

use agent_stream::{AgentStream, StreamSummary};
use libfuzzer_sys::fuzz_target;

fn events(bytes: &[u8], chunk: usize) -> (Vec<String>, String) {
    let mut stream = AgentStream::with_line_ceiling(300);
    let mut summary = StreamSummary::default();
    let mut events = Vec::new();
    let mut text = String::new();
    let mut on_line = |line: agent_stream::StreamLine<'_>| {
        summary.observe(&line, &mut |piece| text.push_str(piece));
        events.push(serde_json::to_string(&line.event).expect("every event can be printed"));
    };
    for chunk in bytes.chunks(chunk) {
        stream.feed(chunk, &mut on_line);
    }
    stream.finish(&mut on_line);
    summary.finish(stream.open_calls(), &mut |piece| text.push_str(piece));
    (events, text)
}

fuzz_target!(|input: (u8, &[u8])| {
    let (chunk, bytes) = input;
    let whole = events(bytes, bytes.len().max(1));
    assert_eq!(events(bytes, usize::from(chunk).max(1)), whole);
    let unterminated = bytes.last().is_some_and(|byte| *byte != b'\n');
    let n_lines = bytes.iter().filter(|byte| **byte == b'\n').count() + usize::from(unterminated);
    assert_eq!(whole.0.len(), n_lines);
});
