//! `/v1/openapi.json`: the description of the API, generated from the handlers and the types that they read and write.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{
    ComponentsBuilder, Content, ContentBuilder, InfoBuilder, LicenseBuilder, OpenApi,
    OpenApiBuilder, Ref, RefOr, Response as Described, ResponseBuilder, Schema, Server,
};
use utoipa::{PartialSchema, ToSchema};

use super::error::{Body, ErrorCode};
use super::routes;

/// Generated on first use.
pub(super) static DOCUMENT: LazyLock<String> =
    LazyLock::new(|| complete(routes().into_openapi()).to_pretty_json().unwrap_or_default());

const TAGS: [(&str, &str); 8] = [
    ("runs", "Runs: list, start, stop."),
    ("events", "The events of runs, as they happen."),
    ("inbox", "Agents' questions, and messages to agents."),
    ("queue", "The queue of waiting runs."),
    ("groups", "Groups of runs."),
    ("sessions", "Cursor's conversations."),
    ("daemon", "The daemon itself."),
    ("internal", "For caretaker's own command line and shims; may change with any version."),
];

/// This document
#[utoipa::path(
    get, path = "/v1/openapi.json", operation_id = "get_document", tag = "daemon",
    responses((status = OK, description = "This document", body = Object)),
)]
pub(crate) async fn document() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT.as_str()).into_response()
}

/// The document without the routes.
pub(super) fn frame() -> OpenApi {
    let what = "Supervised agents: runs, their events, the queue. The Unix socket needs no token; on loopback send the \
                token of the file `daemon.token`. Every refusal has a `code` for programs.";
    let license = LicenseBuilder::new()
        .name("MIT OR Apache-2.0")
        .identifier(Some("MIT OR Apache-2.0"))
        .build();
    let info = InfoBuilder::new()
        .title("Caretaker")
        .version("1")
        .description(Some(what))
        .license(Some(license));
    let token = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    let mut schemas = vec![(Body::name().into_owned(), Body::schema())];
    Body::schemas(&mut schemas);
    let components = ComponentsBuilder::new()
        .security_scheme("token", token)
        .schemas_from_iter(schemas)
        .responses_from_iter(refusals())
        .build();
    let tags =
        TAGS.map(|(name, what)| TagBuilder::new().name(name).description(Some(what)).build());
    OpenApiBuilder::new()
        .info(info)
        .servers(Some([Server::new("/")]))
        .security(Some([
            SecurityRequirement::default(),
            SecurityRequirement::new::<_, [&str; 0], &str>("token", []),
        ]))
        .tags(Some(tags))
        .components(Some(components))
        .build()
}

/// One response for each refusal status, with the codes that have that status.
fn refusals() -> BTreeMap<String, RefOr<Described>> {
    let mut meanings: BTreeMap<StatusCode, String> = BTreeMap::new();
    for (code, meaning) in ErrorCode::ALL {
        let word = serde_json::to_value(code).unwrap_or_default();
        let line = format!("- `{}`:{meaning}\n", word.as_str().unwrap_or_default());
        meanings.entry(code.status()).or_default().push_str(&line);
    }
    let schema = Ref::from_schema_name(Body::name());
    let content = ContentBuilder::new().schema(Some(schema)).build();
    let answer = |(status, meanings): (StatusCode, String)| {
        let answer = ResponseBuilder::new()
            .description(meanings)
            .content("application/json", content.clone());
        (refusal(status), answer.into())
    };
    meanings.into_iter().map(answer).collect()
}

fn refusal(status: StatusCode) -> String {
    format!("Refused{}", status.as_u16())
}

/// Completes all operations: adds common refusals, and corrects optional bodies.
fn complete(mut document: OpenApi) -> OpenApi {
    for path in document.paths.paths.values_mut() {
        let methods =
            [&mut path.get, &mut path.put, &mut path.post, &mut path.patch, &mut path.delete];
        for operation in methods.into_iter().flatten() {
            add_refusals(operation);
            if let Some(RefOr::T(body)) = &mut operation.request_body {
                body.content.values_mut().for_each(without_null);
            }
        }
    }
    document
}

/// A handler declares an optional body as `Option<T>`. utoipa then allows `null` as well; this removes it.
fn without_null(body: &mut RefOr<Content>) {
    if let RefOr::T(body) = body
        && let Some(RefOr::T(Schema::OneOf(choices))) = &body.schema
        && let Some(named) = choices.items.iter().find(|item| matches!(item, RefOr::Ref(_)))
    {
        body.schema = Some(named.clone());
    }
}

/// Adds the refusals that follow from an operation's parameters and body. The operation itself declares its other
/// refusals.
fn add_refusals(operation: &mut Operation) {
    let mut statuses = vec![
        StatusCode::UNAUTHORIZED,
        StatusCode::FORBIDDEN,
        StatusCode::UPGRADE_REQUIRED,
        StatusCode::INTERNAL_SERVER_ERROR,
        StatusCode::SERVICE_UNAVAILABLE,
    ];
    if operation.parameters.is_some() || operation.request_body.is_some() {
        statuses.push(StatusCode::BAD_REQUEST);
    }
    if operation.request_body.is_some() {
        statuses.extend([StatusCode::REQUEST_TIMEOUT, StatusCode::PAYLOAD_TOO_LARGE]);
    }
    let responses = &mut operation.responses.responses;
    let named = responses.keys().filter_map(|status| status.parse().ok());
    statuses.extend(named.filter(|status: &StatusCode| !status.is_success()));
    for status in statuses {
        let answer = Ref::from_response_name(refusal(status));
        responses.insert(status.as_str().to_owned(), answer.into());
    }
}
