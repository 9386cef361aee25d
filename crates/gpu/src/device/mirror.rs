//! Buffers of inputs whose content the host knows, so that it writes only what has changed.

use super::Device;

/// The contents of a buffer of u32 words, as far as the host has written it or knows that kernels
/// have.
#[derive(Debug, Default)]
pub(crate) struct Mirror {
    words: Vec<u32>,
}

impl Mirror {
    /// Makes the buffer begin with `words`. A write is a copy that the GPU makes before the
    /// commands of the next submission, and costs it some microseconds.
    pub(crate) fn write(&mut self, device: &Device, buffer: &wgpu::Buffer, words: &[u32]) {
        if self.replace(words) {
            device.queue.write_buffer(buffer, 0, bytemuck::cast_slice(words));
        }
    }

    /// Changes the words that a kernel changes in the buffer.
    pub(crate) fn words_mut(&mut self) -> &mut [u32] {
        &mut self.words
    }

    /// Replaces the first words. Returns whether they were others.
    fn replace(&mut self, words: &[u32]) -> bool {
        if self.words.get(..words.len()).is_some_and(|known| known == words) {
            return false;
        }
        let known = self.words.len().max(words.len());
        self.words.resize(known, 0);
        self.words[..words.len()].copy_from_slice(words);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::Mirror;

    #[test]
    fn only_changed_words_are_written() {
        let mut mirror = Mirror::default();
        assert!(mirror.replace(&[1, 2, 3]));
        assert!(!mirror.replace(&[1, 2, 3]));
        assert!(!mirror.replace(&[1, 2]), "the third is still there");
        assert!(!mirror.replace(&[1, 2, 3]));
        assert!(mirror.replace(&[4]));
        assert!(!mirror.replace(&[4, 2, 3]));
        mirror.words_mut()[1] += 1;
        assert!(!mirror.replace(&[4, 3, 3]));
        assert!(mirror.replace(&[4, 3, 3, 0]), "the fourth was never written");
    }
}
