//! A tower from a checkpoint to a device.

use std::sync::{Arc, Mutex};

use pelton_graph::{
    Backend, KvElement, KvType, Limits, Mask, Op, PictureRows, Plan, VisionTower, build_tower,
    pages_for,
};
use pelton_image::{Bounds, Preprocessor, Tower};
use pelton_tokenizer::{Special, Tokenizer};
use pelton_weights::Checkpoint;

use super::{Eyes, Vision, held::Held, identities::Identities, joining::Joining, newest::Newest};
use crate::{Error, api::LoadOptions};

/// The most embeddings of a picture where the options do not say.
const TOKENS: usize = 4096;

/// Bytes of the embeddings of pictures that are kept.
const KEPT: usize = 512 << 20;

/// Bytes of patches that may wait for the tower, for each prompt token that may wait.
const HELD: usize = 1 << 10;

/// A tower that is not on a device yet.
pub(crate) struct OpenTower {
    tower: Arc<VisionTower>,
    checkpoint: Arc<Checkpoint>,
    preprocessor: Arc<Preprocessor>,
    /// The embeddings of a picture, and rows of the tower for the most.
    bounds: Bounds,
    rows: usize,
    /// The form of keys and values of a picture's patches.
    kv: KvType,
}

/// The plans and the preprocessing of a tower's checkpoint.
///
/// # Errors
///
/// If the tower is of no known kind, or not whole.
pub(crate) fn open(checkpoint: Checkpoint, options: &LoadOptions) -> Result<OpenTower, Error> {
    let tower = build_tower(&checkpoint)?;
    let settings = checkpoint.vision_settings()?;
    let sides = Tower { patch: tower.patch, merge: tower.merge };
    let preprocessor = Preprocessor::from_json(&settings.file, &settings.json, sides)?;
    let most = options.picture_tokens.unwrap_or(TOKENS);
    let least = options.picture_tokens_min.unwrap_or(0);
    if least > most {
        return Err(Error::PictureBounds { least, most });
    }
    let rows = match tower.grid {
        Some(grid) => tower.rows(grid),
        None => most.saturating_mul((tower.merge as usize).pow(2)).min(tower.tower.context),
    };
    let (tower, checkpoint) = (Arc::new(tower), Arc::new(checkpoint));
    let preprocessor = Arc::new(preprocessor);
    // they live for a pass, so blocks would save no memory that lasts
    let in_floats = |kv: KvElement| if kv.block().is_some() { KvElement::F16 } else { kv };
    let kv = KvType { keys: in_floats(options.kv.keys), values: in_floats(options.kv.values) };
    let bounds = Bounds { least, most };
    Ok(OpenTower { tower, checkpoint, preprocessor, bounds, rows, kv })
}

impl OpenTower {
    /// The most embeddings of a picture.
    pub(crate) fn tokens(&self) -> usize {
        self.bounds.most
    }

    pub(crate) fn tower(&self) -> &VisionTower {
        &self.tower
    }

    pub(crate) fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// The embeddings that rows of the text model have of pictures.
    ///
    /// # Errors
    ///
    /// [`Error::TowerWidth`] if the tower is of another model.
    pub(crate) fn rows_of(&self, text: &Checkpoint) -> Result<PictureRows, Error> {
        let key = format!("{}.embedding_length", text.metadata().string("general.architecture")?);
        let (found, expected) = (self.tower.width, text.metadata().usize(&key)?);
        if found != expected {
            let tower = self.checkpoint.name().to_owned();
            return Err(Error::TowerWidth { tower, found, expected });
        }
        // any token of the vocabulary will do, but where a layer has embeddings of its own
        let padding = text.metadata().opt_usize("tokenizer.ggml.padding_token_id")?;
        let rows = text.tensor("token_embd.weight").map_or(0, |table| table.rows());
        let token = padding.filter(|&id| id < rows).unwrap_or(0) as u32;
        Ok(PictureRows { slices: 1 + self.tower.deepstack, token })
    }

    /// Bytes of the weights.
    pub(crate) fn weight_bytes(&self) -> u64 {
        let plans = [&self.tower.tower, &self.tower.projector];
        plans.into_iter().map(pelton_place::file_bytes).sum()
    }

    /// Bytes that a device allocates.
    pub(crate) fn needs(&self, backend: &dyn Backend) -> Result<u64, Error> {
        let mut sum = 0;
        for (plan, rows) in self.plans() {
            let plan = plan.clone().fuse(&|op, plan| backend.accepts(op, plan));
            sum += backend.needs(&plan, &limits(&plan, rows, self.kv))?.total();
        }
        Ok(sum)
    }

    fn plans(&self) -> [(&Plan, usize); 2] {
        let square = (self.tower.merge as usize).pow(2);
        [(&self.tower.tower, self.rows), (&self.tower.projector, self.rows.div_ceil(square))]
    }

    /// Loads it for a text model with this plan and these sizes, and makes its form for callers.
    ///
    /// # Errors
    ///
    /// As any load; [`Error::PictureMark`] if the vocabulary lacks the token of pictures.
    pub(crate) fn load(
        &self,
        backend: &dyn Backend,
        (text, sizes): (&Plan, &Limits),
        tokenizer: &Tokenizer,
        options: &LoadOptions,
    ) -> Result<(Vision, Eyes), Error> {
        let mut loaded = Vec::new();
        for (plan, rows) in self.plans() {
            let plan = plan.clone().fuse(&|op, plan| backend.accepts(op, plan));
            let limits = limits(&plan, rows, self.kv);
            let progress = &mut |done, total| options.report(done, total);
            loaded.push(backend.load(plan, Arc::clone(&self.checkpoint), limits, progress)?);
        }
        self.checkpoint.check_files()?;
        let Ok(loaded) = <[_; 2]>::try_from(loaded) else { unreachable!("two plans") };
        let joining = Joining::of(self.tower.family);
        let mark = match tokenizer.encode(joining.mark, Special::Parse)?.as_slice() {
            &[mark] => mark,
            _ => return Err(Error::PictureMark { mark: joining.mark }),
        };
        let whole = |mask| matches!(mask, Mask::CausalOrGroup { .. });
        let is_whole = text.steps.iter().any(|step| match &step.op {
            Op::Attend(attention) | Op::RopeAttend(_, attention) => whole(attention.mask),
            _ => false,
        });
        let first = u32::try_from(text.input_tokens()).unwrap_or(u32::MAX);
        let mut bounds = self.bounds;
        if is_whole {
            bounds.most = bounds.most.min(sizes.rows);
        }
        let newest = Arc::new(Newest::new(KEPT));
        let vision = Vision {
            joining,
            tower: Arc::clone(&self.tower),
            preprocessor: Arc::clone(&self.preprocessor),
            stand_in: text.stand_in(),
            mark,
            is_whole,
            has_axes: text.ropes.iter().any(|rope| !rope.axes.is_empty()),
            bounds,
            context: sizes.context,
            identities: Mutex::new(Identities::new(first)),
            held: Arc::new(Held::new(options.queue_tokens.saturating_mul(HELD))),
            newest: Arc::clone(&newest),
        };
        let tower = Arc::clone(&self.tower);
        Ok((vision, Eyes::new(tower, &self.checkpoint, loaded, self.rows, newest)))
    }
}

/// One sequence of as many rows.
fn limits(plan: &Plan, rows: usize, kv: KvType) -> Limits {
    let rows = rows.max(1);
    Limits {
        rows,
        wants: 1,
        sequences: 1,
        context: rows,
        pages: vec![pages_for(rows); plan.groups.len()],
        snapshots: 0,
        kv,
        tokens: plan.vocab,
        bias: 0,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pelton_cpu::Cpu;

    use super::*;

    /// The option for the most tokens sizes the buffers: the largest picture that may come costs no
    /// more.
    #[test]
    fn buffers_have_the_size_of_the_most_tokens() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/vision");
        let needs = |tokens| {
            let tower = Checkpoint::open_tower(folder.join("qwen2.5-vl")).unwrap().unwrap();
            let options = LoadOptions::default().picture_tokens(tokens);
            open(tower, &options).unwrap().needs(&Cpu::new(1)).unwrap()
        };
        let [few, some, many] = [64, 1024, 4096].map(needs);
        assert!(some > 4 * few && many > 3 * some, "{few}, {some}, {many}");
        let tower = Checkpoint::open_tower(folder.join("qwen2.5-vl")).unwrap().unwrap();
        let default = open(tower, &LoadOptions::default()).unwrap();
        assert_eq!(default.needs(&Cpu::new(1)).unwrap(), many);
    }
}
