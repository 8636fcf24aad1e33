//! What can be asked over HTTP, on the Unix socket and on loopback alike.
//!
//! Every answer is JSON but `/metrics` and the event streams; every refusal is `{"error":…,"hint":…}`. `openapi.json`
//! beside this file describes all of it, and a test holds it against [`routes`] and against the types.

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
use axum::http::Method;
use axum::middleware;
use axum::routing::{MethodRouter, get, post};

use crate::daemon::Daemon;
pub(crate) use body::BodyRoom;
pub(crate) use error::ApiError;
pub(crate) use gate::Door;
pub(crate) use prompt_body::PromptRoom;

pub(crate) struct Route {
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "the router knows; the test of the document asks")
    )]
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    handler: MethodRouter<Arc<Daemon>>,
}

fn reads(path: &'static str, handler: MethodRouter<Arc<Daemon>>) -> Route {
    Route { method: Method::GET, path, handler }
}

fn changes(path: &'static str, handler: MethodRouter<Arc<Daemon>>) -> Route {
    Route { method: Method::POST, path, handler }
}

/// Everything that can be asked.
pub(crate) fn routes() -> Vec<Route> {
    vec![
        reads("/v1/version", get(version::version)),
        reads("/v1/openapi.json", get(openapi::document)),
        reads("/v1/runs", get(runs::list)),
        changes("/v1/runs", post(runs::submit)),
        reads("/v1/runs/{run}", get(runs::one)),
        reads("/v1/runs/{run}/events", get(run_events::events)),
        changes("/v1/runs/{run}/enqueue", post(runs::enqueue)),
        changes("/v1/runs/{run}/stop", post(runs::stop)),
        changes("/v1/runs/{run}/suspend", post(runs::suspend)),
        changes("/v1/runs/{run}/children", post(inbox::spawn)),
        changes("/v1/runs/{run}/messages", post(inbox::send)),
        reads("/v1/inbox", get(inbox::list)),
        changes("/v1/inbox/{question}/answer", post(inbox::answer)),
        reads("/v1/events", get(all_events::events)),
        reads("/v1/sessions", get(sessions::list)),
        reads("/v1/sessions/{session}", get(sessions::one)),
        reads("/v1/queue", get(queue::show)),
        changes("/v1/queue/pause", post(queue::pause)),
        changes("/v1/queue/resume", post(queue::resume)),
        changes("/v1/queue/drain", post(queue::drain)),
        changes("/v1/queue/caps", post(queue::set_cap)),
        reads("/v1/groups", get(groups::list)),
        changes("/v1/groups/{group}/budget", post(groups::set_budget)),
        reads("/metrics", get(metrics::metrics)),
    ]
}

/// The router for those who come in by one door.
pub(crate) fn router(daemon: Arc<Daemon>, door: Door) -> Router {
    let router = routes()
        .into_iter()
        .fold(Router::new(), |router, route| router.route(route.path, route.handler));
    router
        .fallback(error::no_such_path)
        .method_not_allowed_fallback(error::no_such_method)
        // The gate has read the body already, or left a prompt to its handler, which has limits of its own.
        .layer(DefaultBodyLimit::disable())
        .layer(middleware::from_fn_with_state((Arc::clone(&daemon), door), gate::check))
        .with_state(daemon)
}

#[cfg(test)]
#[path = "api_tests.rs"]
mod tests;
