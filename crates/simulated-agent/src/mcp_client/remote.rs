//! One MCP server that has a `url`: streamable HTTP.
//!
//! Every message is a separate POST. Its answer comes as JSON or in a stream of events. The agent does not speak the
//! older transport, whose answers come in a separate stream, and does not resume a broken stream.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use super::curl::{Curl, Exchange, Head, HttpRequest};
use super::event_stream::EventStream;
use super::protocol::{self, Answer, Connection, Incoming, RequestError};
use crate::process::lock;

/// The agent waits this long for the response when it ends a session.
const FAREWELL: Duration = Duration::from_secs(1);

const ACCEPT: (&str, &str) = ("Accept", "application/json, text/event-stream");
const CONTENT_TYPE: (&str, &str) = ("Content-Type", "application/json");
const SESSION: &str = "Mcp-Session-Id";
const VERSION: &str = "MCP-Protocol-Version";

#[derive(Debug)]
pub(super) struct Remote {
    curl: Curl,
    url: String,
    /// The definition's headers, without those that the protocol sets.
    headers: Vec<(String, String)>,
    session: Mutex<Session>,
    next_id: AtomicU64,
    farewell: Mutex<Option<Exchange>>,
}

/// The server's answer to the greeting.
#[derive(Debug, Clone, Default)]
struct Session {
    id: Option<String>,
    version: Option<String>,
}

impl Remote {
    pub(super) fn new(definition: &Map<String, Value>, curl: Curl) -> Self {
        let url = definition.get("url").and_then(Value::as_str).unwrap_or_default().to_owned();
        let headers = definition.get("headers").and_then(Value::as_object).into_iter().flatten();
        let reserved = [ACCEPT.0, CONTENT_TYPE.0, SESSION, VERSION];
        let is_reserved = |name: &str| reserved.iter().any(|own| own.eq_ignore_ascii_case(name));
        let headers = headers
            .filter(|(name, _)| !is_reserved(name))
            .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
        Self {
            curl,
            url,
            headers: headers.collect(),
            session: Mutex::default(),
            next_id: AtomicU64::new(1),
            farewell: Mutex::default(),
        }
    }

    fn send(
        &self,
        method: &str,
        message: Option<&Value>,
        limit: Duration,
    ) -> Result<Exchange, RequestError> {
        let Session { id, version } = lock(&self.session).clone();
        let body = message.map(Value::to_string);
        let own = [ACCEPT].into_iter().chain(body.as_ref().map(|_| CONTENT_TYPE));
        let of_session = [(SESSION, id.as_deref()), (VERSION, version.as_deref())];
        let of_session = of_session.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let given = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let headers: Vec<(&str, &str)> = own.chain(of_session).chain(given).collect();
        let (url, body) = (self.url.as_str(), body.as_deref());
        self.curl.send(&HttpRequest { method, url, headers: &headers, body, limit })
    }

    /// Sends a message that has no answer.
    fn tell(&self, message: &Value, limit: Duration) -> Result<(), RequestError> {
        let (head, _exchange) = self.send("POST", Some(message), limit)?.head()?;
        check_status(&head)
    }

    fn ask(&self, id: u64, message: &Value, limit: Duration) -> Answer {
        let deadline = Instant::now() + limit;
        let (head, exchange) = self.send("POST", Some(message), limit)?.head()?;
        check_status(&head)?;
        if let Some(session) = head.header("mcp-session-id") {
            // Set the session before reading the body, because a server may send a request in its first response
            // stream.
            lock(&self.session).id = Some(session.to_owned());
        }
        let kind = head.header("content-type").unwrap_or_default().to_ascii_lowercase();
        match kind.split(';').next().unwrap_or_default().trim() {
            "application/json" => answer_in_json(id, exchange),
            "text/event-stream" => self.answer_in_stream(id, exchange, deadline),
            other => Err(RequestError::NotMcp(format!("it is `{other}`"))),
        }
    }

    fn answer_in_stream(&self, id: u64, mut exchange: Exchange, deadline: Instant) -> Answer {
        let mut stream = EventStream::default();
        loop {
            let bytes = exchange.more()?;
            if bytes.is_empty() {
                return exchange.finish().and(Err(RequestError::Closed));
            }
            for message in stream.push(&bytes) {
                // No request is waiting for a message that is not JSON.
                let Ok(message) = serde_json::from_slice::<Value>(&message) else { continue };
                match Incoming::of(&message) {
                    Incoming::Answer { id: of, answer } if of == id => return answer,
                    Incoming::Question { reply } => {
                        let left = deadline.saturating_duration_since(Instant::now());
                        self.tell(&reply, left).ok();
                    }
                    Incoming::Answer { .. } | Incoming::Other => {}
                }
            }
        }
    }
}

impl Connection for Remote {
    fn request(&self, method: &str, params: Value, limit: Duration) -> Answer {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        match self.ask(id, &protocol::request(id, method, &params), limit) {
            Ok(result) => {
                if method == "initialize" {
                    let version = result["protocolVersion"].as_str().map(str::to_owned);
                    lock(&self.session).version = version;
                }
                Ok(result)
            }
            // Before the greeting there is nothing to cancel.
            Err(RequestError::TimedOut) if method != "initialize" => {
                self.notify("notifications/cancelled", protocol::cancelled(id), FAREWELL).ok();
                Err(RequestError::TimedOut)
            }
            Err(err) => Err(err),
        }
    }

    fn notify(&self, method: &str, params: Value, limit: Duration) -> Result<(), RequestError> {
        self.tell(&protocol::notification(method, &params), limit)
    }

    /// Ends the session, if the server has one.
    fn hang_up(&self) {
        if lock(&self.session).id.is_some() {
            let sent = self.send("DELETE", None, FAREWELL).ok();
            lock(&self.session).id = None;
            *lock(&self.farewell) = sent;
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.hang_up();
        if let Some(exchange) = lock(&self.farewell).take() {
            // The answer does not matter.
            exchange.head().ok();
        }
    }
}

fn check_status(head: &Head) -> Result<(), RequestError> {
    match head.status {
        200..300 => Ok(()),
        401 => Err(RequestError::NeedsLogin(401)),
        status if head.header("www-authenticate").is_some() => {
            Err(RequestError::NeedsLogin(status))
        }
        status => Err(RequestError::Status(status)),
    }
}

fn answer_in_json(id: u64, mut exchange: Exchange) -> Answer {
    let mut body = Vec::new();
    loop {
        let bytes = exchange.more()?;
        if bytes.is_empty() {
            break;
        }
        body.extend(bytes);
    }
    exchange.finish()?;
    let message: Value =
        serde_json::from_slice(&body).map_err(|err| RequestError::NotMcp(err.to_string()))?;
    // Older servers may answer with a list.
    let messages = message.as_array().map_or(std::slice::from_ref(&message), Vec::as_slice);
    let answer = messages.iter().find_map(|message| match Incoming::of(message) {
        Incoming::Answer { id: of, answer } if of == id => Some(answer),
        _ => None,
    });
    answer.unwrap_or_else(|| Err(RequestError::NotMcp("it answers another request".to_owned())))
}
