//! The load of a model.

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
    /// Preemptions since the load.
    pub preemptions: u64,
    /// Pages that were evicted since the load.
    pub evictions: u64,
    /// Passes that failed since the load.
    pub failed_passes: u64,
}
