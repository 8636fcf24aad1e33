//! `/v1/groups`: groups of runs and their budgets.

use std::collections::BTreeMap;
use std::sync::Arc;

use admission::budgets::group_record::GroupRecord;
use admission::budgets::tally::Tally;
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use run_journal::{RunOverview, Which};
use run_protocol::Budget;
use serde::Serialize;

use super::ApiError;
use super::request::{InPath, OfGroup, blocking, json};
use super::runs::overviews;
use crate::daemon::Daemon;

/// Groups.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct GroupList {
    /// The version of this format.
    v: u32,
    /// By name.
    groups: Vec<Group>,
}

/// A group of runs.
#[derive(Debug, Default, Serialize, utoipa::ToSchema)]
pub(crate) struct Group {
    /// The group's name.
    name: String,
    /// Its runs, counted by state.
    #[serde(flatten)]
    tally: Tally,
    /// The budget that its runs share.
    budget: Budget,
}

/// The budget of a group.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct GroupBudget {
    /// The version of this format.
    v: u32,
    /// The group.
    group: String,
    /// The budget that its runs share.
    budget: Budget,
}

/// List the groups, with the number of runs in each
#[utoipa::path(
    get, path = "/v1/groups", operation_id = "list_groups", tag = "groups",
    responses((status = OK, description = "Groups", body = GroupList)),
)]
pub(crate) async fn list(State(daemon): State<Arc<Daemon>>) -> Result<Json<GroupList>, ApiError> {
    let mut runs: BTreeMap<String, Vec<RunOverview>> = BTreeMap::new();
    for run in overviews(&daemon, Which::All, None).await? {
        if let Some(group) = run.group.clone() {
            runs.entry(group).or_default().push(run);
        }
    }
    // Read the records after listing the runs: they count a run that was removed in between.
    blocking(move || {
        for (name, _) in GroupRecord::with_gone_runs(daemon.state()) {
            runs.entry(name).or_default();
        }
        let groups = runs.into_iter().map(|(name, runs)| {
            let record = GroupRecord::read(daemon.state(), &name);
            let tally = record.tally(&name, &runs);
            let budget = record.budget.unwrap_or(daemon.config.group_budget);
            Group { name, tally, budget }
        });
        Json(GroupList { v: 1, groups: groups.collect() })
    })
    .await
}

/// Set the budget of a group
///
/// The budget replaces the group's old budget; `{}` removes every limit. The group need not have a run yet.
#[utoipa::path(
    post, path = "/v1/groups/{group}/budget", operation_id = "set_group_budget", tag = "groups",
    params(OfGroup),
    request_body(content = Budget),
    responses((status = OK, description = "The budget", body = GroupBudget)),
)]
pub(crate) async fn set_budget(
    State(daemon): State<Arc<Daemon>>,
    InPath(OfGroup { group }): InPath<OfGroup>,
    body: Bytes,
) -> Result<Json<GroupBudget>, ApiError> {
    if !is_name(&group) {
        let what = "a group's name has 1 to 64 letters, digits, `.`, `_` or `-`, and begins with a letter or digit";
        return Err(ApiError::bad_request(what));
    }
    // Elsewhere a missing body means `{}`. Here that would remove every limit of the group.
    if body.is_empty() {
        return Err(ApiError::bad_request("the request body is missing")
            .hint("send the new budget; `{}` removes every limit"));
    }
    let budget: Budget = json(&body)?;
    let (state, name) = (daemon.state().clone(), group.clone());
    let written =
        blocking(move || GroupRecord::update(&state, &name, |record| record.budget = Some(budget)));
    written.await?.map_err(|error| ApiError::internal(&error))?;
    daemon.queue.wake();
    Ok(Json(GroupBudget { v: 1, group, budget }))
}

/// True if the text can be a group's name, which is part of a file name.
fn is_name(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
}

#[cfg(test)]
impl GroupBudget {
    pub(super) fn example() -> Self {
        let budget = Budget { tokens: Some(5), ..Budget::default() };
        Self { v: 1, group: "night".to_owned(), budget }
    }
}
