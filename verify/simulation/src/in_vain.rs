//! Requests that come to nothing, of which I8 allows so many in a window.

use std::collections::VecDeque;
use std::time::Duration;

/// Over any window of this length.
pub(crate) const WINDOW: Duration = Duration::from_secs(10);

/// So many may come to nothing in a window, besides those that are due: three a second.
pub(crate) const IN_VAIN_MAX: usize = 30;

/// The requests of a window that came to nothing, or are under way.
#[derive(Debug, Default)]
pub(crate) struct InVain(VecDeque<(Duration, u64)>);

impl InVain {
    /// Takes note of a request, whose number is higher than those before. Returns how many there
    /// are in the window that ends now.
    pub(crate) fn sent(&mut self, now: Duration, number: u64) -> usize {
        self.0.push_back((now, number));
        while self.0.front().is_some_and(|(sent, _)| *sent + WINDOW <= now) {
            self.0.pop_front();
        }
        self.0.len()
    }

    /// That request brought answers.
    pub(crate) fn came_to_something(&mut self, number: u64) {
        if let Ok(at) = self.0.binary_search_by_key(&number, |(_, number)| *number) {
            self.0.remove(at);
        }
    }
}
