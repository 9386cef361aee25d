//! Waits that block the calling thread.

use std::time::Duration;

pub(in crate::device) use pollster::block_on;

/// Commands that were submitted.
#[derive(Clone, Debug)]
pub(crate) struct Submission(wgpu::SubmissionIndex);

impl Submission {
    /// The commands up to an index. The mappings that they come before are requested already.
    pub(in crate::device) fn new(_: &wgpu::Queue, index: wgpu::SubmissionIndex) -> Self {
        Self(index)
    }
}

/// Waits for the commands up to a submission, or for all.
pub(in crate::device) fn wait(
    device: &wgpu::Device,
    _: &wgpu::Queue,
    until: Option<&Submission>,
    limit: Duration,
) -> Result<(), wgpu::PollError> {
    let submission_index = until.map(|submission| submission.0.clone());
    device.poll(wgpu::PollType::Wait { submission_index, timeout: Some(limit) }).map(|_| ())
}
