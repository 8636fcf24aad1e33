use std::sync::Arc;

use pretty_assertions::assert_eq;

use super::*;

/// Keeps every write separate.
#[derive(Clone, Default)]
struct Writes(Arc<Mutex<Vec<Vec<u8>>>>);

impl Write for Writes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().push(bytes.to_vec());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Writes {
    fn each(&self) -> Vec<Vec<u8>> {
        self.0.lock().unwrap().clone()
    }

    fn text(&self) -> String {
        String::from_utf8(self.each().concat()).unwrap()
    }
}

fn output() -> (Output, Writes) {
    let writes = Writes::default();
    (Output::new(Box::new(writes.clone())), writes)
}

#[test]
fn a_line_is_one_write() {
    let (output, writes) = output();
    output.line("one").unwrap();
    output.line("zwei ü").unwrap();
    assert_eq!(writes.each(), [b"one\n".to_vec(), "zwei ü\n".into()]);
}

#[test]
fn split_characters_cuts_each_multi_byte_character_between_two_writes() {
    let (output, writes) = output();
    output.change_habits(|habits| habits.split_characters = true);
    output.line("aü日b").unwrap();
    assert_eq!(writes.text(), "aü日b\n");
    let pieces = writes.each();
    assert_eq!(pieces.len(), 3);
    assert!(pieces[..2].iter().all(|piece| std::str::from_utf8(piece).is_err()));
}

#[test]
fn noise_follows_each_line_and_is_never_json() {
    let (output, writes) = output();
    output.change_habits(|habits| habits.noise = true);
    for _ in 0..NOISE.len() {
        output.line("{}").unwrap();
    }
    let text = writes.text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.iter().filter(|line| **line == "{}").count(), NOISE.len());
    assert!(NOISE.iter().all(|noise| lines.contains(noise)));
    assert!(NOISE.iter().all(|noise| serde_json::from_str::<Value>(noise).is_err()));
}

#[test]
fn each_line_starts_with_the_prefix() {
    let (output, writes) = output();
    output.change_habits(|habits| habits.prefix = true);
    output.line("{}").unwrap();
    assert_eq!(writes.text(), "stdout: {}\n");
}

#[test]
fn a_repeated_line_fills_at_least_that_many_bytes() {
    let (output, writes) = output();
    output.repeat("12345", 13).unwrap();
    assert_eq!(writes.text(), "12345\n12345\n12345\n");
}

#[test]
fn no_line_begins_after_the_stop() {
    let (output, writes) = output();
    let output = Arc::new(output);
    output.line("before").unwrap();
    output.stop(Duration::from_secs(1));
    let late = Arc::clone(&output);
    let (sender, receiver) = std::sync::mpsc::channel();
    thread::spawn(move || {
        sender.send(()).unwrap();
        late.line("after").unwrap();
    });
    receiver.recv().unwrap();
    // The first stop still holds the lock during the second.
    output.stop(Duration::from_millis(50));
    assert_eq!(writes.text(), "before\n");
}

#[test]
fn formats_have_three_names() {
    assert_eq!(OutputFormat::from_name("stream-json"), Some(OutputFormat::StreamJson));
    assert_eq!(OutputFormat::from_name("xml"), None);
}
