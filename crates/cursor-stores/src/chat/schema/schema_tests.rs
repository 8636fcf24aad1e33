//! Tests the schema on bytes: known encodings, hostile nesting, and arbitrary bytes.

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use prost::Message;
use serde_json::json;

use super::references::*;
use crate::chat::schema::Value;
use crate::chat::schema::*;
use crate::chat::{BlobId, Fidelity, decode_message};

#[test]
fn an_empty_thought_is_two_bytes() {
    let step =
        ConversationStep { message: Some(Step::ThinkingMessage(ThinkingMessage::default())) };
    assert_eq!(step.encode_to_vec(), [0x1a, 0x00]);
}

#[test]
fn a_state_before_the_first_answer_has_empty_token_details() {
    let root = ConversationStateStructure {
        root_prompt_messages_json: vec![vec![7; 32]],
        token_details: Some(ConversationTokenDetails::default()),
        ..Default::default()
    };
    let mut expected = vec![0x0a, 0x20];
    expected.extend([7; 32]);
    expected.extend([0x2a, 0x00]);
    assert_eq!(root.encode_to_vec(), expected);
}

#[test]
fn an_empty_attachment_is_kept_as_an_empty_message() {
    let message = UserMessage { selected_context: Some(Vec::new()), mode: 1, ..Default::default() };
    assert_eq!(message.encode_to_vec(), [0x1a, 0x00, 0x20, 0x01]);
}

#[test]
fn an_opaque_submessage_survives_a_round_trip() {
    // Field 32, a goal, whose own fields are not known.
    let bytes = [0x82, 0x02, 0x04, 0x0a, 0x02, b'h', b'i'];
    let decoded = decode_message::<ConversationStateStructure>(&bytes).unwrap();
    assert_eq!(decoded.fidelity, Fidelity::Exact);
    assert_eq!(decoded.message.goal_state.as_deref(), Some(&[0x0a, 0x02, b'h', b'i'][..]));
}

#[test]
fn a_field_from_the_future_is_noticed() {
    let bytes = [0x0a, 0x01, b'a', 0xf8, 0x3f, 0x01];
    let decoded = decode_message::<ConversationPlan>(&bytes).unwrap();
    assert_eq!(decoded.message.plan, "a");
    assert_eq!(decoded.fidelity, Fidelity::Differs);
}

#[test]
fn a_mode_from_the_future_keeps_its_number() {
    let decoded = decode_message::<ConversationStateStructure>(&[0x50, 0x63]).unwrap();
    assert_eq!(decoded.message.mode, Some(99));
    assert_eq!(decoded.fidelity, Fidelity::Exact);
}

#[test]
fn every_tool_has_its_own_number() {
    let mut names = std::collections::BTreeSet::new();
    for number in 1..=80_u32 {
        let mut bytes = Vec::new();
        prost::encoding::encode_key(number, prost::encoding::WireType::LengthDelimited, &mut bytes);
        bytes.push(0);
        let Ok(call) = ToolCall::decode(bytes.as_slice()) else { continue };
        if let Some(tool) = call.tool {
            assert_eq!(
                ToolCall { tool: Some(tool.clone()), ..Default::default() }.encode_to_vec(),
                bytes
            );
            names.insert(tool.name());
        }
    }
    assert_eq!(names.len(), 69);
    assert!(
        names.contains("shell")
            && names.contains("fetch_cloud_agent_data")
            && names.contains("read_canvas")
    );
}

#[test]
fn the_arguments_of_an_mcp_tool_are_json() {
    let json =
        json!({"n": 3, "half": 0.5, "s": "x", "b": true, "nil": null, "list": [1, {"deep": []}]});
    let value = Value::from(json.clone());
    let args = McpArgs { args: [("a".to_owned(), value)].into(), ..Default::default() };
    let decoded = McpArgs::decode(args.encode_to_vec().as_slice()).unwrap();
    assert_eq!(serde_json::Value::from(decoded.args["a"].clone()), json);
}

/// Wraps `inner` as field `number`, length-delimited.
fn wrap(number: u32, inner: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    prost::encoding::bytes::encode(number, &inner.to_vec(), &mut bytes);
    bytes
}

#[test]
fn hostile_nesting_is_refused_instead_of_overflowing_the_stack() {
    let mut root = Vec::new();
    let mut step = Vec::new();
    let mut value = Vec::new();
    for _ in 0..1_000 {
        let entry = [wrap(1, b"k"), wrap(2, &wrap(1, &root))].concat();
        root = wrap(16, &entry);
        // A step that calls a task that succeeded with a step.
        step = wrap(2, &wrap(19, &wrap(2, &wrap(1, &wrap(1, &step)))));
        value = wrap(6, &wrap(1, &value));
    }
    assert!(visit_references(BlobKind::Root, &root, &mut |_| {}).is_err());
    assert!(visit_references(BlobKind::Step, &step, &mut |_| {}).is_err());
    assert!(Value::decode(value.as_slice()).is_err());
    let json = "[".repeat(100_000);
    assert_eq!(
        visit_references(
            BlobKind::PromptMessage,
            format!("{{\"a\":{json}").as_bytes(),
            &mut |_| {}
        ),
        Err(NotOfKind::Json)
    );
}

fn reference_texts(kind: BlobKind, data: &[u8]) -> Vec<String> {
    let mut texts = Vec::new();
    visit_references(kind, data, &mut |reference| {
        texts.push(format!("{:?} {} {}", reference.kind, reference.field, reference.id[0]));
    })
    .unwrap();
    texts
}

#[test]
fn every_reference_of_a_root_is_found() {
    let id = |byte: u8| vec![byte; 32];
    let nested = ConversationStateStructure { plan: Some(id(20)), ..Default::default() };
    let root = ConversationStateStructure {
        root_prompt_messages_json: vec![id(1), id(2)],
        turns_old: vec![id(3)],
        turns: vec![id(4)],
        todos: vec![id(5)],
        summary: Some(id(6)),
        plan: Some(id(7)),
        summary_archive: Some(id(8)),
        summary_archives: vec![id(9)],
        file_states: [("/a".to_owned(), id(10))].into(),
        file_states_v2: [(
            "/b".to_owned(),
            FileStateStructure { content: Some(id(11)), initial_content: Some(id(12)) },
        )]
        .into(),
        subagent_states: [(
            "explore".to_owned(),
            SubagentPersistedState { conversation_state: Some(nested), ..Default::default() },
        )]
        .into(),
        subagent_state_refs: [("s".to_owned(), id(13))].into(),
        token_details: Some(ConversationTokenDetails {
            prompt_context_usage_snapshot_blob_id: Some(id(14)),
            ..Default::default()
        }),
        ..Default::default()
    };
    assert_eq!(
        reference_texts(BlobKind::Root, &root.encode_to_vec()),
        [
            "PromptMessage root_prompt_messages_json[0] 1",
            "PromptMessage root_prompt_messages_json[1] 2",
            "OldTurn turns_old[0] 3",
            "Turn turns[0] 4",
            "Todo todos[0] 5",
            "Summary summary 6",
            "Plan plan 7",
            "Archive summary_archive 8",
            "Archive summary_archives[0] 9",
            "FileState file_states[/a] 10",
            "Text file_states_v2.content[/b] 11",
            "Text file_states_v2.initial_content[/b] 12",
            "SubagentState subagent_state_refs[s] 13",
            "Opaque token_details.prompt_context_usage_snapshot_blob_id 14",
            "Plan plan of subagent explore 20",
        ]
    );
}

#[test]
fn every_reference_below_a_root_is_found() {
    let id = |byte: u8| vec![byte; 32];
    let turn = AgentConversationTurnStructure {
        user_message: id(1),
        steps: vec![id(2)],
        ..Default::default()
    };
    let agent_turn = ["UserMessage user_message 1", "Step steps[0] 2"];
    assert_eq!(reference_texts(BlobKind::OldTurn, &turn.encode_to_vec()), agent_turn);
    let wrapped = ConversationTurnStructure { turn: Some(Turn::AgentConversationTurn(turn)) };
    assert_eq!(reference_texts(BlobKind::Turn, &wrapped.encode_to_vec()), agent_turn);

    let shell = ShellConversationTurnStructure { shell_command: id(3), shell_output: id(4) };
    let shell = ConversationTurnStructure { turn: Some(Turn::ShellConversationTurn(shell)) };
    assert_eq!(
        reference_texts(BlobKind::Turn, &shell.encode_to_vec()),
        ["ShellCommand shell_command 3", "ShellOutput shell_output 4"]
    );

    let context =
        SelectedContextImages { selected_images: vec![SelectedImageBlob { blob_id: id(8) }] };
    let message = UserMessage {
        conversation_state_blob_id: id(5),
        text_blob_id: Some(id(6)),
        rich_text_blob_id: Some(id(7)),
        selected_context: Some(context.encode_to_vec()),
        ..Default::default()
    };
    assert_eq!(
        reference_texts(BlobKind::UserMessage, &message.encode_to_vec()),
        [
            "Root conversation_state_blob_id 5",
            "Text text_blob_id 6",
            "Text rich_text_blob_id 7",
            "Opaque selected_context.selected_images.blob_id[0] 8",
        ]
    );

    let archive = ConversationSummaryArchive {
        summarized_messages: vec![id(9)],
        summary_message: id(10),
        ..Default::default()
    };
    assert_eq!(
        reference_texts(BlobKind::Archive, &archive.encode_to_vec()),
        ["PromptMessage summarized_messages[0] 9", "PromptMessage summary_message 10"]
    );
}

#[test]
fn references_inside_tool_calls_are_found_even_in_the_steps_of_a_task() {
    let step = |tool: Tool| ConversationStep {
        message: Some(Step::ToolCall(Box::new(ToolCall {
            tool: Some(tool),
            ..Default::default()
        }))),
    };
    let read = |output: ReadOutput| {
        let success = ReadToolSuccess { output: Some(output), ..Default::default() };
        let result = ReadToolResult { result: Some(ReadOutcome::Success(success)) };
        step(Tool::Read(ReadToolCall { args: None, result: Some(result) }))
    };
    let truncated = TruncatedToolCall { original_step_blob_id: vec![1; 32], ..Default::default() };
    let steps = vec![
        step(Tool::Truncated(truncated)),
        read(ReadOutput::DataBlobId(vec![2; 32])),
        read(ReadOutput::ContentBlobId(vec![3; 32])),
        read(ReadOutput::Content("inline".to_owned())),
    ];
    let success = TaskSuccess { conversation_steps: steps, ..Default::default() };
    let result = TaskResult { result: Some(TaskOutcome::Success(success)) };
    let task = step(Tool::Task(TaskToolCall { args: None, result: Some(result) }));
    assert_eq!(
        reference_texts(BlobKind::Step, &task.encode_to_vec()),
        [
            "Step truncated.original_step_blob_id 1",
            "Opaque read.data_blob_id 2",
            "Text read.content_blob_id 3"
        ]
    );
}

#[test]
fn a_blob_id_is_shown_as_lower_case_hex_and_read_in_either_case() {
    let id = BlobId::of(b"");
    let text = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(id.to_string(), text);
    assert_eq!(text.to_uppercase().parse(), Ok(id));
    assert_eq!(BlobId::try_from(id.to_vec().as_slice()), Ok(id));
    for not_an_id in ["", "e3", &text[1..], &format!("{text}0"), &text.replace('e', "g")] {
        assert!(not_an_id.parse::<BlobId>().is_err());
    }
}

proptest! {
    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        for kind in BlobKind::ALL {
            visit_references(kind, &bytes, &mut |_| {}).ok();
        }
        if let Ok(decoded) = decode_message::<Value>(&bytes) {
            drop(serde_json::Value::from(decoded.message));
        }
    }

    #[test]
    fn no_damage_to_real_messages_makes_a_decoder_panic(
        id in prop::collection::vec(any::<u8>(), 0..40),
        text in ".{0,20}",
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let root = ConversationStateStructure {
            root_prompt_messages_json: vec![id.clone()],
            turns: vec![id.clone()],
            pending_tool_calls: vec![text.clone()],
            file_states: [(text.clone(), id.clone())].into(),
            subagent_states: [(text, SubagentPersistedState {
                conversation_state: Some(ConversationStateStructure { plan: Some(id), ..Default::default() }),
                ..Default::default()
            })].into(),
            ..Default::default()
        };
        let mut bytes = root.encode_to_vec();
        prop_assert_eq!(decode_message::<ConversationStateStructure>(&bytes).unwrap().fidelity, Fidelity::Exact);
        for (index, byte) in damage {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        for kind in BlobKind::ALL {
            visit_references(kind, &bytes, &mut |_| {}).ok();
        }
    }

    #[test]
    fn json_survives_a_round_trip_through_a_protobuf_value(numbers in prop::collection::vec(-1_000_000_i64..1_000_000, 0..5), text in ".{0,20}") {
        let json = json!({"numbers": numbers, "text": text, "nested": {"a": [null, false]}});
        let value = Value::decode(Value::from(json.clone()).encode_to_vec().as_slice()).unwrap();
        prop_assert_eq!(serde_json::Value::from(value), json);
    }
}
