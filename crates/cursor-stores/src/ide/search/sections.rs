//! Divides the database into sections, each of which an index can cover.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;

use crate::database::DatabaseFingerprint;
use crate::ide::agent::blob_content;
use crate::ide::database::{Table, Value};
use crate::ide::search::{Task, all_tasks, search};
use crate::ide::store::{IdeStore, Opened};
use crate::model::Damage;
use crate::search::Matcher;
use crate::store::{Encoding, Found, IndexableStore, ReadConversationError, Section};

impl IndexableStore for IdeStore {
    fn fingerprint(&self) -> Option<u64> {
        let mut hasher = DefaultHasher::new();
        DatabaseFingerprint::of(&self.path).ok()?.hash(&mut hasher);
        Some(hasher.finish())
    }

    fn sections(&self) -> Result<Vec<Section>, ReadConversationError> {
        let opened = self.open()?;
        let mut sections = Vec::new();
        for task in all_tasks() {
            let range = task.range();
            let mut hasher = DefaultHasher::new();
            let mut n_rows = 0;
            // Cursor gives a row a new number when it writes it again, so the value need not be read.
            let visited = opened.pool.with(|database| {
                database.visit_keys(Table::DiskKv, range, &mut |key, rowid| {
                    (key, rowid).hash(&mut hasher);
                    n_rows += 1;
                })
            });
            visited.map_err(|err| self.unreadable(err))?;
            if n_rows > 0 {
                sections.push(Section { name: range.start.clone(), stamp: hasher.finish() });
            }
        }
        Ok(sections)
    }

    fn visit_section(
        &self,
        name: &str,
        visit: &mut dyn FnMut(&[u8], Encoding),
    ) -> Result<(), ReadConversationError> {
        let Opened { pool, .. } = self.open()?;
        for task in tasks_of(&[name.to_owned()]) {
            // Every search reports the damage.
            pool.visit(Table::DiskKv, task.range(), &mut |row| {
                if let Value::Bytes(bytes) = &row.value {
                    match task {
                        Task::Blobs(_) => {
                            let content = blob_content(bytes);
                            let is_json = content.first() == Some(&b'{');
                            visit(&content, if is_json { Encoding::Json } else { Encoding::Bytes });
                        }
                        Task::Composers(_) | Task::Rows(..) => visit(bytes, Encoding::Json),
                    }
                }
                ControlFlow::Continue(())
            });
        }
        Ok(())
    }

    fn search_sections(
        &self,
        names: &[String],
        matcher: &Matcher,
        found: Found<'_>,
    ) -> Vec<Damage> {
        search(self, &tasks_of(names), matcher, found)
    }
}

fn tasks_of(names: &[String]) -> Vec<Task> {
    all_tasks().into_iter().filter(|task| names.contains(&task.range().start)).collect()
}
