//! The rest between `/sleep` and `/wake_up`, in which no model takes memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Entry;

/// The models that were unloaded for the rest.
#[derive(Default)]
pub(crate) struct Sleep(Mutex<Vec<Arc<Entry>>>);

impl Sleep {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Entry>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Unloads the loaded ones among some models, after the requests that use them.
    pub(crate) async fn begin(&self, entries: Vec<Arc<Entry>>) {
        let mut tasks = Vec::new();
        for entry in entries.into_iter().filter(|entry| entry.loaded().is_some()) {
            let mut asleep = self.lock();
            if !asleep.iter().any(|other| Arc::ptr_eq(other, &entry)) {
                asleep.push(Arc::clone(&entry));
            }
            drop(asleep);
            tasks.push(tokio::spawn(async move { entry.unload().await }));
        }
        for task in tasks {
            // a panic has unloaded it too
            let _ = task.await;
        }
    }

    /// Ends the rest: the models that must be loaded again.
    pub(crate) fn end(&self) -> Vec<Arc<Entry>> {
        std::mem::take(&mut self.lock())
    }

    /// Whether there are such models, and none of them is loaded. A request loads the one that it
    /// names.
    pub(crate) fn is_on(&self) -> bool {
        let asleep = self.lock();
        !asleep.is_empty() && asleep.iter().all(|entry| entry.loaded().is_none())
    }
}
