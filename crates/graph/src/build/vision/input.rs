//! The values that the passes of a picture read, and the use of their results.

use super::family::{Join, Places};
use super::places::patches;
use super::plans::VisionTower;
use super::windows::Windows;
use crate::{Error, Hidden, Input, Pass, Phase, Place, Row, TableEdit};

/// The rows of a pass, and the values of the buffers of its plan's entry.
#[derive(Clone, Debug, PartialEq)]
pub struct TowerInput {
    /// [`Pass::rows`](crate::Pass::rows): rows of slot 0 from position 0 on.
    pub rows: Vec<Row>,
    /// [`Pass::places`](crate::Pass::places); empty if the plan does not read them.
    pub places: Vec<Place>,
    /// [`Pass::hidden`](crate::Pass::hidden) of the host.
    pub hidden: Vec<f32>,
}

impl TowerInput {
    /// The pass, which keeps its hidden states. `tables` has the pages of slot 0, if the plan reads
    /// any.
    #[must_use]
    pub fn pass<'a>(&'a self, tables: &'a [TableEdit<'a>]) -> Pass<'a> {
        Pass {
            tables,
            places: &self.places,
            hidden: Hidden::Given(&self.hidden),
            keeps_hidden: true,
            ..Pass::new(Phase::Prompt, &self.rows, &[])
        }
    }
}

impl VisionTower {
    /// Rows of the tower's pass over a picture.
    #[must_use]
    pub fn rows(&self, grid: [u32; 2]) -> usize {
        count(grid) + self.of.class_rows()
    }

    /// Embeddings of a picture.
    #[must_use]
    pub fn tokens(&self, grid: [u32; 2]) -> usize {
        count(grid) / self.square()
    }

    /// The tower's pass over a picture with these values of patches `[patches, values]`, in the
    /// order of `pelton_image::Prepared`.
    ///
    /// The page table of slot 0 has pages for all rows.
    ///
    /// # Errors
    ///
    /// [`Error::Pass`] if the tower cannot take a picture of this grid, or the values are not those
    /// of its patches.
    pub fn input(&self, pixels: &[f32], grid: [u32; 2]) -> Result<TowerInput, Error> {
        self.check(grid)?;
        let (found, expected) = (pixels.len(), count(grid) * self.pixels);
        if found != expected {
            return Err(Error::Pass(format!(
                "{found} values of pixels, expected {expected} for {} x {} patches",
                grid[0], grid[1]
            )));
        }
        let class = self.of.class_rows();
        let windows = self.windows(grid);
        let rows = self.rows(grid);
        let of_places = if self.of.places == Places::None { 0 } else { self.hidden };
        let mut hidden = Vec::with_capacity(rows * (self.pixels + of_places));
        hidden.resize(class * self.pixels, 0.0);
        match &windows {
            Some(windows) => windows.sort(pixels, self.square() * self.pixels, &mut hidden),
            None if self.of.is_signed => {
                hidden.extend(pixels.iter().map(|value| 2.0 * (value - 0.5)));
            }
            None => hidden.extend_from_slice(pixels),
        }
        self.place_rows.add_to(&mut hidden, grid, self.merge)?;
        let places = match self.tower.has_places() {
            true => self.coordinates(grid, windows.as_ref()),
            false => Vec::new(),
        };
        Ok(TowerInput { rows: plain_rows(self.rows(grid)), places, hidden })
    }

    /// The projector's pass after the tower's, whose kept states are
    /// [`Outputs::hidden`](crate::Outputs::hidden).
    ///
    /// # Errors
    ///
    /// [`Error::Pass`] if the states are not those of such a picture.
    pub fn between(&self, kept: &[f32], grid: [u32; 2]) -> Result<TowerInput, Error> {
        self.check(grid)?;
        let len = self.rows(grid) * self.hidden;
        let (found, expected) = (kept.len(), len * (1 + self.deepstack));
        if found != expected {
            return Err(Error::Pass(format!("{found} values of states, expected {expected}")));
        }
        let windows = self.windows(grid);
        let mut hidden = Vec::new();
        for states in kept.chunks_exact(len) {
            let states = &states[self.of.class_rows() * self.hidden..];
            let square = self.square() * self.hidden;
            match &windows {
                Some(windows) => hidden.extend(windows.restored(states, square)),
                None => states.chunks(square).for_each(|of| self.join(of, &mut hidden)),
            }
        }
        let rows = self.projector_rows(grid);
        Ok(TowerInput { rows, places: Vec::new(), hidden })
    }

    /// For each row of the projector's pass its square in the tower's pass, where a row is the
    /// states of a square one after another. The projector can then read them as those of a
    /// [partner](crate::Hidden::Partner). `None` of other towers: [`between`](Self::between) makes
    /// their rows.
    #[must_use]
    pub fn squares(&self, grid: [u32; 2]) -> Option<Vec<u32>> {
        if self.of.join != Join::Fold || self.of.class_rows() > 0 {
            return None;
        }
        let tokens = self.tokens(grid) as u32;
        Some(self.windows(grid).map_or_else(|| (0..tokens).collect(), |of| of.places()))
    }

    /// The rows of a pass of the projector.
    #[must_use]
    pub fn projector_rows(&self, grid: [u32; 2]) -> Vec<Row> {
        plain_rows(self.tokens(grid))
    }

    /// The states `[patches, width]` after the last layer of what the tower's pass kept, in the
    /// order of patches.
    #[must_use]
    pub fn last_states(&self, kept: &[f32], grid: [u32; 2]) -> Vec<f32> {
        let states = kept.get(..self.rows(grid) * self.hidden).unwrap_or_default();
        let states = states.get(self.of.class_rows() * self.hidden..).unwrap_or_default();
        match self.windows(grid) {
            Some(windows) => windows.restored(states, self.square() * self.hidden),
            None => states.to_vec(),
        }
    }

    /// The embeddings `[tokens, (1 + deepstack) · width]` of what the projector's pass kept: each
    /// row has the embedding, and then the embeddings of the text model's first layers.
    ///
    /// # Errors
    ///
    /// [`Error::Pass`] if the values are not those of such a picture.
    pub fn embeddings(&self, kept: &[f32], grid: [u32; 2]) -> Result<Vec<f32>, Error> {
        let (tokens, slices) = (self.tokens(grid), 1 + self.deepstack);
        let (found, expected) = (kept.len(), tokens * slices * self.width);
        if found != expected {
            return Err(Error::Pass(format!("{found} values of embeddings, expected {expected}")));
        }
        let mut out = Vec::with_capacity(kept.len());
        for token in 0..tokens {
            for slice in 0..slices {
                let first = (slice * tokens + token) * self.width;
                out.extend_from_slice(&kept[first..first + self.width]);
            }
        }
        Ok(out)
    }

    /// Patches of a square.
    fn square(&self) -> usize {
        (self.merge as usize).pow(2)
    }

    fn windows(&self, grid: [u32; 2]) -> Option<Windows> {
        let squares = grid.map(|side| (side / self.merge) as usize);
        (self.window > 0).then(|| Windows::new(squares, self.window))
    }

    /// Appends what the projector reads of the states of a square.
    fn join(&self, states: &[f32], out: &mut Vec<f32>) {
        let width = self.hidden;
        match self.of.join {
            Join::Fold => out.extend_from_slice(states),
            Join::FoldElements => {
                let of = |i: usize| states.iter().skip(i).step_by(width).copied();
                out.extend((0..width).flat_map(of));
            }
            Join::Mean => out.extend(self.means(states)),
            Join::StandardMean => {
                let root = (width as f64).sqrt() as f32;
                let scaled = self.means(states).map(|mean| mean * root);
                match &self.standard {
                    Some([bias, scale]) => out.extend(
                        scaled.zip(bias).zip(scale).map(|((x, bias), scale)| (x - bias) * scale),
                    ),
                    None => out.extend(scaled),
                }
            }
        }
    }

    /// The mean of each element of the states of a square.
    fn means(&self, states: &[f32]) -> impl Iterator<Item = f32> + use<> {
        let mut sums = vec![0.0_f64; self.hidden];
        for state in states.chunks_exact(self.hidden) {
            for (sum, value) in sums.iter_mut().zip(state) {
                *sum += f64::from(*value);
            }
        }
        let count = self.square() as f64;
        sums.into_iter().map(move |sum| (sum / count) as f32)
    }

    /// The coordinates of rows, and their windows.
    fn coordinates(&self, grid: [u32; 2], windows: Option<&Windows>) -> Vec<Place> {
        let patches: Vec<_> = patches(grid, self.merge).collect();
        let class = self.of.class_rows() as u32;
        let place = |(position, [y, x]): (u32, [u32; 2])| Place {
            at: [0, y, x],
            group: [position, position + 1],
        };
        let rows = (0..class).map(Place::of);
        let Some(windows) = windows else {
            return rows.chain((class..).zip(patches).map(place)).collect();
        };
        let square = self.square();
        let mut all = Vec::with_capacity(patches.len());
        for group in windows.groups() {
            let first = all.len() as u32;
            let end = first + (group.len() * square) as u32;
            for index in group {
                let of = &patches[index * square..][..square];
                all.extend(of.iter().map(|&[y, x]| Place { at: [0, y, x], group: [first, end] }));
            }
        }
        all
    }

    fn check(&self, grid: [u32; 2]) -> Result<(), Error> {
        let [rows, columns] = grid;
        let refuse = |expected: String| {
            Err(Error::Pass(format!(
                "a picture of {rows} x {columns} patches, expected {expected}"
            )))
        };
        if let Some([high, wide]) = self.grid.filter(|own| *own != grid) {
            return refuse(format!("{high} x {wide}"));
        }
        let merge = self.merge;
        if grid.iter().any(|side| *side == 0 || !side.is_multiple_of(merge)) {
            return refuse(format!("a multiple of {merge} on each side"));
        }
        let most = self.tower.context;
        if u64::from(rows) * u64::from(columns) > most as u64 {
            return refuse(format!("at most {most}"));
        }
        Ok(())
    }
}

/// Patches of a grid.
fn count([rows, columns]: [u32; 2]) -> usize {
    rows as usize * columns as usize
}

fn plain_rows(count: usize) -> Vec<Row> {
    (0..count as u32).map(|position| Row { input: Input::Features, position, slot: 0 }).collect()
}
