//! The results of a benchmark. The process that measures a part writes them to a file; the main process prints them.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Figures(Vec<Section>);

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Section {
    title: String,
    rows: Vec<Row>,
}

/// One result, and the value promised to users.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Row {
    name: String,
    value: f64,
    unit: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_most: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_least: Option<f64>,
}

impl Figures {
    pub(super) fn section(&mut self, title: impl Into<String>) -> &mut Section {
        self.0.push(Section { title: title.into(), rows: Vec::new() });
        let last = self.0.len() - 1;
        &mut self.0[last]
    }

    pub(super) fn table(&self) -> String {
        let mut table = String::new();
        for section in &self.0 {
            table.push_str(&section.title);
            table.push('\n');
            section.rows.iter().for_each(|row| row.write(&mut table));
        }
        table
    }

    pub(super) fn n_missed(&self) -> usize {
        self.0.iter().flat_map(|section| &section.rows).filter(|row| row.is_missed()).count()
    }
}

impl Section {
    pub(super) fn row(&mut self, name: impl Into<String>, value: f64, unit: &str) -> &mut Row {
        let (name, unit) = (name.into(), unit.to_owned());
        self.rows.push(Row { name, value, unit, at_most: None, at_least: None });
        let last = self.rows.len() - 1;
        &mut self.rows[last]
    }
}

impl Row {
    pub(super) fn at_most(&mut self, promise: f64) {
        self.at_most = Some(promise);
    }

    pub(super) fn at_least(&mut self, promise: f64) {
        self.at_least = Some(promise);
    }

    fn is_missed(&self) -> bool {
        self.at_most.is_some_and(|most| self.value > most)
            || self.at_least.is_some_and(|least| self.value < least)
    }

    fn write(&self, table: &mut String) {
        let Self { name, value, unit, .. } = self;
        write!(table, "  {name:<58} {value:>12.3} {unit:<5}").ok();
        let promises = [("at most", self.at_most), ("at least", self.at_least)];
        for (bound, promise) in promises {
            if let Some(promise) = promise {
                let verdict = if self.is_missed() { "MISSED" } else { "met" };
                write!(table, "  promised: {bound} {promise}, {verdict}").ok();
            }
        }
        table.push('\n');
    }
}
