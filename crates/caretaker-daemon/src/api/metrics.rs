//! `/metrics`: a few metrics in Prometheus format.

use std::fmt::Write;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::daemon::Daemon;
use crate::queue::queue_file::QueueGate;
use crate::run_watch::Standing;

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A few metrics, for Prometheus
#[utoipa::path(
    get, path = "/metrics", operation_id = "get_metrics", tag = "daemon",
    responses((status = OK, description = "Numbers", body = String, content_type = "text/plain")),
)]
pub(crate) async fn metrics(State(daemon): State<Arc<Daemon>>) -> Response {
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], text(&daemon)).into_response()
}

fn text(daemon: &Daemon) -> String {
    let mut page = Page(String::new());
    let runs = daemon.watch.runs();
    let count = |is_it: fn(&Standing) -> bool| {
        runs.iter().filter(|(_, run)| is_it(&run.standing)).count() as u64
    };
    let sight = daemon.queue.sight();
    page.head("caretaker_runs", "gauge", "Runs that have not ended, by state.");
    let queued = count(|it| matches!(it, Standing::Queued { .. }));
    page.value("caretaker_runs{state=\"queued\"}", queued);
    page.value("caretaker_runs{state=\"live\"}", count(|it| matches!(it, Standing::Live { .. })));
    page.value("caretaker_runs{state=\"expected\"}", count(|it| *it == Standing::Expected));
    page.head("caretaker_runs_ended_total", "counter", "Runs that have ended, by outcome.");
    for (outcome, number) in daemon.counters.by_outcome() {
        page.value(&format!("caretaker_runs_ended_total{{outcome=\"{outcome}\"}}"), number);
    }
    page.head("caretaker_queue_cap", "gauge", "How many runs may be under way at once.");
    page.value("caretaker_queue_cap", u64::from(sight.caps.total));
    page.head("caretaker_queue_open", "gauge", "1 if the queue starts runs, 0 while it is paused.");
    page.value("caretaker_queue_open", u64::from(sight.gate != QueueGate::Paused));
    let counters = &daemon.counters;
    for (name, help, number) in [
        ("starts", "Runs started from the queue.", counters.starts.get()),
        ("failed_starts", "Failed starts that will be retried.", counters.failed_starts.get()),
        ("decisions", "Scheduler decisions.", counters.decisions.get()),
        ("decision_microseconds", "Time spent on decisions.", counters.decision_us.get()),
        ("http_requests", "Requests.", counters.requests.get()),
        ("http_refused", "Requests refused by the gate.", counters.refused_requests.get()),
        ("connections_refused", "Connections refused.", counters.refused_connections.get()),
    ] {
        let name = format!("caretaker_{name}_total");
        page.head(&name, "counter", help);
        page.value(&name, number);
    }
    page.head("caretaker_event_streams", "gauge", "Clients that are following events.");
    page.value("caretaker_event_streams", counters.event_streams.get());
    page.0
}

struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}").ok();
    }

    fn value(&mut self, name: &str, number: u64) {
        writeln!(self.0, "{name} {number}").ok();
    }
}
