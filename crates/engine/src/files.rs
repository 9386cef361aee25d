//! A watch over the files of a model that runs.

use std::time::Duration;

use pelton_graph::Executable;
use pelton_weights::MappedFiles;
use web_time::Instant;

use crate::Error;

/// The time between two looks at the sizes and times of files while passes run.
const PERIOD: Duration = Duration::from_secs(1);

/// The files whose bytes a model reads, and the last look at them.
pub(crate) struct FileWatch {
    files: MappedFiles,
    looked: Instant,
}

impl FileWatch {
    /// The files of a model, if the executable reads them after its load.
    pub(crate) fn of(executable: &dyn Executable, files: &MappedFiles) -> Self {
        let files = if executable.reads_files() { files.clone() } else { MappedFiles::default() };
        Self { files, looked: Instant::now() }
    }

    pub(crate) fn files(&self) -> &MappedFiles {
        &self.files
    }

    /// Whether no file has changed, as far as is known after a pass. A pass that read zeros in
    /// place of a file's page is always found, another change within a second.
    ///
    /// # Errors
    ///
    /// [`Error::Weights`] with the name of a file.
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        self.files.check_pages()?;
        match self.looked.elapsed() < PERIOD {
            true => Ok(()),
            false => self.check_now(),
        }
    }

    /// Whether no file has changed.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    pub(crate) fn check_now(&mut self) -> Result<(), Error> {
        self.files.check()?;
        self.looked = Instant::now();
        Ok(())
    }
}
