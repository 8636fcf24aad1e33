//! The conversations of all stores, each with the verdict on whether it can be resumed.

mod resumable;

use cursor_stores::model::{Conversation, Head, Shelf};
use cursor_stores::{Catalogue, Extent, StoreDamage};
use serde::Serialize;

use crate::command_error::{CommandError, OrFail};
use crate::host::Host;
use crate::host::store_places::store_places;
use crate::resumption::refusal::Reason;
use crate::words::talk::note;
use crate::words::units::counted;

pub use resumable::tell_refused;

/// A page of conversations, as `sessions ls --json` and the API print it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Listing {
    /// The version of this format.
    v: u32,
    /// The total number of conversations.
    pub n_sessions: usize,
    /// The conversations on this page.
    pub sessions: Vec<Listed>,
}

/// One conversation in a list.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Listed {
    /// The conversation without its messages.
    #[serde(flatten)]
    pub head: Head,
    /// Why it cannot be resumed, as in `resume --check --json`: a `kind` and further fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, serde_json::Value>>)]
    refused: Option<Reason>,
}

/// One conversation, as the API prints it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct OneSession {
    /// The version of this format.
    v: u32,
    /// The conversation.
    session: Conversation,
}

impl Listing {
    /// A page of these conversations: at most `limit`, after the first `skip`.
    pub fn page(
        host: &Host,
        catalogue: &Catalogue,
        heads: Vec<Head>,
        skip: usize,
        limit: usize,
    ) -> Self {
        let n_sessions = heads.len();
        let mut page: Vec<Head> = heads.into_iter().skip(skip).take(limit).collect();
        catalogue.complete(&mut page);
        let refused = tell_refused(host, &mut page);
        let listed = page.into_iter().zip(refused).map(|(head, refused)| Listed { head, refused });
        Self { v: 1, n_sessions, sessions: listed.collect() }
    }

    /// A page of the conversations that a list shows, most recently changed first.
    pub fn of_host(host: &Host, skip: usize, limit: usize) -> Result<Self, CommandError> {
        let catalogue = Catalogue::open(&store_places(host)?, &[]);
        let mut heads = list(&catalogue);
        heads.retain(is_listed);
        newest_first(&mut heads);
        Ok(Self::page(host, &catalogue, heads, skip, limit))
    }
}

impl OneSession {
    /// The conversation with this id, if it exists.
    pub fn of_host(host: &Host, id: &str) -> Result<Option<Self>, CommandError> {
        let catalogue = Catalogue::open(&store_places(host)?, &[]);
        let listing = catalogue.list();
        let Some(head) = listing.heads.iter().find(|head| head.id == id) else { return Ok(None) };
        let mut session = catalogue
            .read(head, Extent::default())
            .or_fail(|| format!("session {id} cannot be read"))?;
        tell_refused(host, std::slice::from_mut(&mut session.head));
        Ok(Some(Self { v: 1, session }))
    }
}

/// Lists all conversations. Prints notes on unreadable stores.
pub fn list(catalogue: &Catalogue) -> Vec<Head> {
    let listing = catalogue.list();
    report(&listing.damage);
    listing.heads
}

/// Sorts conversations by their last change.
pub fn newest_first(heads: &mut [Head]) {
    heads.sort_by_key(|head| std::cmp::Reverse(changed_ms(head)));
}

/// True if a list shows the conversation by default.
pub fn is_listed(head: &Head) -> bool {
    head.shelf == Shelf::Shown && head.parent.is_none()
}

pub fn changed_ms(head: &Head) -> Option<i64> {
    head.updated.or(head.created).map(|moment| moment.at_ms)
}

/// Prints one note for each store that could not be read completely.
pub fn report(damage: &[StoreDamage]) {
    let mut rest = damage;
    while let Some(first) = rest.first() {
        let n_same = rest.iter().take_while(|other| other.path == first.path).count();
        let path = first.path.0.display();
        let what = &first.damage.what;
        let place = &first.damage.place;
        let more = match n_same {
            1 => String::new(),
            n => format!(" (and {} more)", counted(n as u64 - 1, "problem", "problems")),
        };
        note(&format!("not everything in {path} could be read: {place}: {what}{more}"));
        rest = &rest[n_same..];
    }
}
