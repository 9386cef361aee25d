//! The loaded tower, on the thread of the model.

use std::{ops::ControlFlow, sync::Arc};

use pelton_graph::{Executable, Hidden, Pass, Phase, TableEdit, VisionTower, pages_for};
use pelton_image::Prepared;
use pelton_weights::Checkpoint;

use super::{
    newest::Newest,
    pictures::Pictures,
    shown::{Form, Key},
};
use crate::{Error, schedule::Runner};

/// A loaded tower and its projector.
pub(crate) struct Eyes {
    of: Arc<VisionTower>,
    tower: Runner,
    projector: Runner,
    /// Whether the projector's passes can read the states of the tower's.
    are_paired: bool,
    /// The pages of the tower's only slot.
    pages: Vec<u32>,
    newest: Arc<Newest>,
    /// Passes so far.
    passes: u64,
    /// The picture that is seen part by part: its embeddings so far, and its next grid.
    begun: Option<(Key, Vec<f32>, usize)>,
}

impl Eyes {
    pub(super) fn new(
        of: Arc<VisionTower>,
        checkpoint: &Checkpoint,
        [tower, projector]: [Box<dyn Executable>; 2],
        rows: usize,
        newest: Arc<Newest>,
    ) -> Self {
        let runner = |executable| Runner::new(executable, checkpoint.files());
        let (mut tower, mut projector) = (runner(tower), runner(projector));
        let are_paired = projector.pair(&mut tower);
        Self {
            tower,
            projector,
            are_paired,
            of,
            pages: (0..pages_for(rows) as u32).collect(),
            newest,
            begun: None,
            passes: 0,
        }
    }

    /// Passes of the tower so far.
    pub(crate) fn passes(&self) -> u64 {
        self.passes
    }

    /// Sees a part of a picture: one pass of the tower. `Break` if the embeddings of the whole
    /// picture are known now.
    ///
    /// # Errors
    ///
    /// If a pass fails.
    pub(crate) fn look(
        &mut self,
        pictures: &mut Pictures,
        picture: usize,
    ) -> Result<ControlFlow<()>, Error> {
        let Some(shown) = pictures.all.get_mut(picture) else {
            return Ok(ControlFlow::Break(()));
        };
        let Form::Patches { prepared, .. } = &shown.form else { return Ok(ControlFlow::Break(())) };
        let key = shown.key;
        if let Some(embeddings) = self.newest.get(&key) {
            shown.form = Form::Embeddings(embeddings);
            return Ok(ControlFlow::Break(()));
        }
        let (mut embeddings, next) = match self.begun.take_if(|(begun, ..)| *begun == key) {
            Some((_, embeddings, next)) => (embeddings, next),
            None => (Vec::new(), 0),
        };
        let grids = prepared.grids.len();
        if next < grids {
            let new = self.embeddings(prepared, next)?;
            match embeddings.is_empty() {
                true => embeddings = new,
                false => embeddings.extend(new),
            }
        }
        if next + 1 < grids {
            self.begun = Some((key, embeddings, next + 1));
            return Ok(ControlFlow::Continue(()));
        }
        let embeddings = Arc::new(embeddings);
        self.newest.keep(key, &embeddings);
        shown.form = Form::Embeddings(embeddings);
        Ok(ControlFlow::Break(()))
    }

    /// The embeddings of a grid of a picture.
    fn embeddings(&mut self, prepared: &Prepared, index: usize) -> Result<Vec<f32>, Error> {
        let before: usize = prepared.grids[..index].iter().map(pelton_image::Grid::patches).sum();
        let own = &prepared.grids[index];
        let (first, grid) = (before * prepared.width, [own.rows, own.columns]);
        let pixels = &prepared.pixels[first..first + own.patches() * prepared.width];
        let input = self.of.input(pixels, grid)?;
        let used = &self.pages[..pages_for(input.rows.len()).min(self.pages.len())];
        let edit = TableEdit { group: 0, slot: 0, first: 0, pages: used };
        // a tower without layers has no cache
        let table = vec![edit; self.of.tower.groups.len().min(1)];
        self.passes += 1;
        let squares = self.of.squares(grid).filter(|_| self.are_paired);
        let pass = Pass { keeps_hidden: squares.is_none(), ..input.pass(&table) };
        let states = run(&mut self.tower, &pass)?;
        let (rows, between);
        let pass = match &squares {
            Some(squares) => {
                rows = self.of.projector_rows(grid);
                let hidden = Hidden::Partner(squares);
                Pass { hidden, keeps_hidden: true, ..Pass::new(Phase::Prompt, &rows, &[]) }
            }
            None => {
                between = self.of.between(states, grid)?;
                between.pass(&[])
            }
        };
        let states = run(&mut self.projector, &pass)?;
        Ok(self.of.embeddings(states, grid)?)
    }
}

/// The kept states of a pass.
fn run<'a>(runner: &'a mut Runner, pass: &Pass<'_>) -> Result<&'a [f32], Error> {
    let ticket = runner.submit(pass)?;
    Ok(runner.take(ticket)?.hidden)
}
