//! The public form as JSON Schema, for the API's document. It is derived from the types that the writer serialises.

use agent_stream::{AgentEvent, EventKind};
use run_protocol::RunEvent;
use utoipa::openapi::schema::{AllOfBuilder, OneOfBuilder};
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::{Envelope, Unreadable};

/// Any event.
#[derive(Debug)]
pub struct PublicEvent;

/// An event that is a line from the agent.
struct PublicAgentEvent;

/// An event that Caretaker reports about the run.
struct PublicRunEvent;

impl PartialSchema for PublicEvent {
    fn schema() -> RefOr<Schema> {
        let what = "One event. A reader must expect kinds and fields that it does not know.";
        OneOfBuilder::new()
            .description(Some(what))
            .item(reference::<PublicRunEvent>())
            .item(reference::<PublicAgentEvent>())
            .item(reference::<Unreadable<'_>>())
            .into()
    }
}

impl ToSchema for PublicEvent {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        with_parts::<PublicRunEvent>(schemas);
        with_parts::<PublicAgentEvent>(schemas);
        with_parts::<Unreadable<'_>>(schemas);
    }
}

impl PartialSchema for PublicRunEvent {
    fn schema() -> RefOr<Schema> {
        AllOfBuilder::new()
            .description(Some("An event that Caretaker reports about a run."))
            .item(reference::<Envelope>())
            .item(in_family("run.", RunEvent::schema()))
            .into()
    }
}

impl ToSchema for PublicRunEvent {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        with_parts::<Envelope>(schemas);
        RunEvent::schemas(schemas);
    }
}

impl PartialSchema for PublicAgentEvent {
    fn schema() -> RefOr<Schema> {
        let RefOr::T(Schema::AllOf(mut whole)) = AgentEvent::schema() else {
            return AgentEvent::schema();
        };
        for item in &mut whole.items {
            if matches!(item, RefOr::Ref(_)) {
                *item = in_family("agent.", EventKind::schema());
            }
        }
        whole.items.insert(0, reference::<Envelope>());
        RefOr::T(Schema::AllOf(whole))
    }
}

impl ToSchema for PublicAgentEvent {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        let mut of_event = Vec::new();
        AgentEvent::schemas(&mut of_event);
        // This schema lists the kinds with their family.
        of_event.retain(|(name, _)| *name != <EventKind<'_> as ToSchema>::name());
        schemas.append(&mut of_event);
        with_parts::<Envelope>(schemas);
    }
}

fn reference<T: ToSchema>() -> RefOr<Schema> {
    RefOr::Ref(Ref::from_schema_name(T::name()))
}

fn with_parts<T: ToSchema>(schemas: &mut Vec<(String, RefOr<Schema>)>) {
    schemas.push((T::name().into_owned(), T::schema()));
    T::schemas(schemas);
}

/// Puts the family in front of the kinds, as the writer does.
fn in_family(family: &str, schema: RefOr<Schema>) -> RefOr<Schema> {
    let in_family = |items: Vec<RefOr<Schema>>| -> Vec<RefOr<Schema>> {
        items.into_iter().map(|item| in_family(family, item)).collect()
    };
    let RefOr::T(schema) = schema else { return schema };
    RefOr::T(match schema {
        Schema::OneOf(mut one) => {
            one.items = in_family(one.items);
            Schema::OneOf(one)
        }
        Schema::AllOf(mut all) => {
            all.items = in_family(all.items);
            Schema::AllOf(all)
        }
        Schema::Object(mut object) => {
            if let Some(RefOr::T(Schema::Object(kind))) = object.properties.get_mut("kind") {
                for word in kind.enum_values.iter_mut().flatten() {
                    if let Some(text) = word.as_str().filter(|text| !text.starts_with("net.")) {
                        *word = format!("{family}{text}").into();
                    }
                }
            }
            Schema::Object(object)
        }
        other => other,
    })
}
