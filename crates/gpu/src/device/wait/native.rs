//! Waits that block the calling thread.

use std::{
    thread,
    time::{Duration, Instant},
};

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

/// Whether a submission has ended.
pub(in crate::device) fn has_ended(device: &wgpu::Device, submission: &Submission) -> bool {
    let submission_index = Some(submission.0.clone());
    let now = wgpu::PollType::Wait { submission_index, timeout: Some(Duration::ZERO) };
    device.poll(now).is_ok()
}

/// Looks for the end of a submission for a short time, without sleep: a thread that sleeps wakes
/// late. It yields its core between looks.
pub(in crate::device) fn spin(device: &wgpu::Device, until: &Submission) {
    const MOST: Duration = Duration::from_millis(4);
    let begun = Instant::now();
    while !has_ended(device, until) && begun.elapsed() < MOST {
        thread::yield_now();
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
