//! The load of a model.

use std::iter::Sum;

use crate::api::SpeculationStats;

/// Pages of one cache group, by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PageCounts {
    /// Pages without content.
    pub free: usize,
    /// Pages of one running sequence each.
    pub private: usize,
    /// Full pages that later prompts with the same prefix can share.
    pub cached: usize,
    /// Cached pages that no running sequence uses: they can be evicted.
    pub evictable: usize,
    /// All pages: free, private and cached.
    pub total: usize,
}

/// The load of a model at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// Requests that wait for their start.
    pub queued: usize,
    /// Prompt tokens of the requests that wait for their start.
    pub queued_tokens: usize,
    /// Requests that run, those with unfinished prompts included.
    pub running: usize,
    /// Running requests whose prompts are not finished.
    pub prefilling: usize,
    /// Requests that were preempted and wait to be resumed.
    pub preempted: usize,
    /// Pages of each cache group.
    pub pages: Vec<PageCounts>,
    /// Snapshots of recurrent states, which cached prefixes of a model with such states need.
    pub snapshots: PageCounts,
    /// Prompt tokens of started requests that were found in the cache, since the load.
    pub prefix_hit_tokens: u64,
    /// Prompt tokens of started requests, since the load.
    pub prefix_lookup_tokens: u64,
    /// Requests that were finished, failed or cancelled, since the load.
    pub ended: u64,
    /// Tokens that were generated, since the load.
    pub generated_tokens: u64,
    /// Passes of the vision tower so far.
    pub tower_passes: u64,
    /// Preemptions since the load.
    pub preemptions: u64,
    /// Pages that were evicted since the load.
    pub evictions: u64,
    /// Passes that failed since the load.
    pub failed_passes: u64,
    /// Drafted tokens, and times of the passes that verified them, since the load.
    pub speculation: SpeculationStats,
}

impl PageCounts {
    fn add(&mut self, other: &Self) {
        let &Self { free, private, cached, evictable, total } = other;
        self.free += free;
        self.private += private;
        self.cached += cached;
        self.evictable += evictable;
        self.total += total;
    }
}

impl Status {
    fn add(&mut self, other: &Self) {
        let Self {
            queued,
            queued_tokens,
            running,
            prefilling,
            preempted,
            pages,
            snapshots,
            prefix_hit_tokens,
            prefix_lookup_tokens,
            ended,
            generated_tokens,
            tower_passes,
            preemptions,
            evictions,
            failed_passes,
            speculation,
        } = other;
        self.queued += queued;
        self.queued_tokens += queued_tokens;
        self.running += running;
        self.prefilling += prefilling;
        self.preempted += preempted;
        self.pages.resize(self.pages.len().max(pages.len()), PageCounts::default());
        self.pages.iter_mut().zip(pages).for_each(|(own, other)| own.add(other));
        self.snapshots.add(snapshots);
        self.prefix_hit_tokens += prefix_hit_tokens;
        self.prefix_lookup_tokens += prefix_lookup_tokens;
        self.ended += ended;
        self.generated_tokens += generated_tokens;
        self.tower_passes += tower_passes;
        self.preemptions += preemptions;
        self.evictions += evictions;
        self.failed_passes += failed_passes;
        self.speculation.add(speculation);
    }
}

/// The load of several copies of a model.
impl Sum for Status {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut sum, one| {
            sum.add(&one);
            sum
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_added() {
        let pages = PageCounts { free: 1, private: 2, cached: 3, evictable: 1, total: 6 };
        let one = Status {
            queued: 1,
            running: 2,
            pages: vec![pages; 2],
            snapshots: pages,
            preemptions: 3,
            ..Status::default()
        };
        let sum: Status = [one.clone(), Status::default(), one].into_iter().sum();
        let twice = PageCounts { free: 2, private: 4, cached: 6, evictable: 2, total: 12 };
        assert_eq!((sum.queued, sum.running, sum.preemptions), (2, 4, 6));
        assert_eq!((sum.pages, sum.snapshots), (vec![twice; 2], twice));
    }
}
