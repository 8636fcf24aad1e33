//! The HTTP API, on the Unix socket and on loopback.
//!
//! Every answer is JSON except `/metrics` and the event streams; every refusal is `{"code":…,"error":…,"hint":…}`. Each
//! handler's attribute declares its path and its answers; [`routes`] and `/v1/openapi.json` are built from it.

mod all_events;
mod body;
mod cursor;
mod error;
mod gate;
mod groups;
mod inbox;
mod metrics;
mod openapi;
mod prompt_body;
mod queue;
mod request;
mod run_events;
mod runs;
mod sessions;
mod version;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};
use utoipa_axum::routes;

use crate::daemon::Daemon;
pub(crate) use body::BodyRoom;
pub(crate) use error::{ApiError, ErrorCode};
pub(crate) use gate::Door;
pub(crate) use prompt_body::PromptRoom;

/// All handlers.
fn handlers() -> Vec<UtoipaMethodRouter<Arc<Daemon>>> {
    vec![
        routes!(version::version),
        routes!(openapi::document),
        routes!(metrics::metrics),
        routes!(runs::list, runs::submit),
        routes!(runs::one),
        routes!(runs::enqueue),
        routes!(runs::stop),
        routes!(runs::suspend),
        routes!(run_events::events),
        routes!(all_events::events),
        routes!(inbox::list),
        routes!(inbox::answer),
        routes!(inbox::send),
        routes!(inbox::spawn),
        routes!(sessions::list),
        routes!(sessions::one),
        routes!(queue::show),
        routes!(queue::pause),
        routes!(queue::resume),
        routes!(queue::drain),
        routes!(queue::set_cap),
        routes!(groups::list),
        routes!(groups::set_budget),
    ]
}

/// All handlers at their paths, with their descriptions.
fn routes() -> OpenApiRouter<Arc<Daemon>> {
    let start = OpenApiRouter::with_openapi(openapi::frame());
    handlers().into_iter().fold(start, OpenApiRouter::routes)
}

/// The router for the clients of one listener.
pub(crate) fn router(daemon: Arc<Daemon>, door: Door) -> Router {
    Router::from(routes())
        .fallback(error::no_such_path)
        .method_not_allowed_fallback(error::no_such_method)
        // The gate has already read the body, or leaves a prompt to its handler, which has its own limits.
        .layer(DefaultBodyLimit::disable())
        .layer(middleware::from_fn_with_state((Arc::clone(&daemon), door), gate::check))
        .with_state(daemon)
}

#[cfg(test)]
#[path = "api_tests.rs"]
mod tests;
