//! The shapes of layers: all that the steps of a layer depend on, but for the tensors present.

use std::ops::Range;

use pelton_weights::{Keys, MAX_SIZE};

use super::heads::Heads;
use super::options::BuildOptions;
use super::pictures;
use super::rope::Ropes;
use super::sizes::Sizes;
use super::tensors::Tensors;
use crate::{
    Cache, CacheGroup, Error, Mask, Op, Rope, RopeId, State, Values,
    arch::{
        Architecture, AttentionScale, Block, Head, MixerRule, Multipliers, Pattern, RopeOff, Temper,
    },
};

/// The greatest number of elements of a latent key, a state's head and the like.
const MAX_DIM: usize = 1 << 16;

/// The layers of a model, and what they share.
pub(super) struct Shapes {
    pub(super) layers: Vec<LayerShape>,
    pub(super) caches: Vec<Cache>,
    pub(super) groups: Vec<CacheGroup>,
    pub(super) states: Vec<State>,
    pub(super) ropes: Vec<Rope>,
    /// Positions that the plan holds for.
    pub(super) context: usize,
    /// Whether rows see earlier rows only.
    pub(super) causal: bool,
}

/// One layer.
pub(super) struct LayerShape {
    pub(super) mixer: Mixer,
    /// Width of the dense feed-forward network, if the file has the key.
    pub(super) ffn: Option<usize>,
}

/// The mixer of the rows of a sequence.
pub(super) enum Mixer {
    Attention(AttentionShape),
    Latent(LatentShape),
    Delta(DeltaShape),
    ShortConv(ConvShape),
    Scan(ScanShape),
    ScanAndAttention(ScanShape, AttentionShape),
    /// None: the feed-forward network is the only branch.
    FeedForward,
    /// The output linear of attention alone.
    Linear,
    None,
}

/// Attention.
pub(super) struct AttentionShape {
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) key_dim: usize,
    pub(super) value_dim: usize,
    pub(super) mask: Mask,
    pub(super) rope: Option<RopeId>,
    pub(super) temper: Option<Op>,
    pub(super) scale: f32,
    /// The index of the cache that it reads.
    pub(super) cache: usize,
    /// Whether it has keys and values, and stores them in that cache.
    pub(super) has_kv: bool,
}

/// Latent attention.
pub(super) struct LatentShape {
    pub(super) heads: usize,
    /// Elements of the latent vector of keys and values.
    pub(super) rank: usize,
    /// Elements of a key that rotate.
    pub(super) rotated: usize,
    /// Elements of a key before it is absorbed, the rotated ones included.
    pub(super) key_dim: usize,
    pub(super) value_dim: usize,
    /// Whether keys and values are computed and stored, by one matrix for all heads.
    pub(super) expanded: bool,
    pub(super) rope: RopeId,
    pub(super) temper: Option<Op>,
    pub(super) scale: f32,
    pub(super) cache: usize,
}

/// Linear attention by the gated delta rule.
pub(super) struct DeltaShape {
    pub(super) key_heads: usize,
    pub(super) value_heads: usize,
    pub(super) key_dim: usize,
    pub(super) value_dim: usize,
    pub(super) taps: usize,
    pub(super) grouped: bool,
    pub(super) conv_state: usize,
    pub(super) state: usize,
}

/// A gated short convolution.
pub(super) struct ConvShape {
    pub(super) taps: usize,
    pub(super) state: usize,
}

/// A selective scan.
pub(super) struct ScanShape {
    pub(super) heads: usize,
    pub(super) groups: usize,
    pub(super) head_dim: usize,
    pub(super) state_dim: usize,
    pub(super) taps: usize,
    /// The bounds of steps.
    pub(super) steps: [f32; 2],
    pub(super) conv_state: usize,
    pub(super) state: usize,
}

impl ScanShape {
    /// Elements of the inputs of all heads of a row.
    pub(super) fn inner(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Channels of the convolution.
    pub(super) fn channels(&self) -> usize {
        self.inner() + 2 * self.groups * self.state_dim
    }
}

impl DeltaShape {
    /// Elements of all queries, or of all keys, of a row.
    pub(super) fn keys_width(&self) -> usize {
        self.key_heads * self.key_dim
    }

    /// Elements of all values of a row.
    pub(super) fn values_width(&self) -> usize {
        self.value_heads * self.value_dim
    }

    /// Elements of queries, keys and values of a row.
    pub(super) fn channels(&self) -> usize {
        2 * self.keys_width() + self.values_width()
    }
}

impl Shapes {
    /// The shapes of some layers of the file, and what they share.
    pub(super) fn read<'a>(
        arch: &Architecture,
        keys: &Keys<'a>,
        sizes: &Sizes,
        tensors: &mut Tensors<'a>,
        options: &BuildOptions,
        layers: Range<usize>,
    ) -> Result<Self, Error> {
        let causal = keys.opt_bool("attention.causal")?.unwrap_or(arch.head == Head::Logits);
        let shapes = Self {
            layers: Vec::new(),
            caches: Vec::new(),
            groups: Vec::new(),
            states: Vec::new(),
            ropes: Vec::new(),
            context: sizes.context,
            causal,
        };
        let heads = Heads::read(keys, sizes, arch)?;
        let ropes = Ropes::new(arch.rope, *keys, sizes, options)?;
        let windows = windows(arch, keys, sizes)?;
        let ffn = keys.opt_sizes("feed_forward_length", sizes.all_layers, MAX_SIZE)?;
        let is_alone = |layer: usize| {
            arch.block == Block::Single && ffn.as_ref().is_some_and(|ffn| ffn[layer] > 0)
        };
        let recurrent = recurrent_layers(arch, keys, sizes)?;
        let whole = match options.pictures {
            Some(_) => pictures::whole(arch, keys, sizes)?,
            None => [false; 2],
        };
        let mut reader =
            Reader { arch, keys, sizes, tensors, heads, ropes, windows, whole, shapes };
        let shared = match arch.gemma_extras {
            true => keys.opt_nonzero("attention.shared_kv_layers", sizes.layers - 1)?.unwrap_or(0),
            false => 0,
        };
        for layer in layers {
            // heads that predict further tokens have attention
            let is_head = layer >= sizes.layers;
            let mixer = match arch.mixer {
                _ if is_alone(layer) => Mixer::FeedForward,
                MixerRule::Delta { tiled } if recurrent[layer] && !is_head => {
                    reader.delta(tiled)?
                }
                MixerRule::ShortConv if recurrent[layer] => reader.short_conv()?,
                MixerRule::Scan if recurrent[layer] => Mixer::Scan(reader.scan()?),
                MixerRule::Latent => reader.latent(layer)?,
                _ if arch.sparse_layers && reader.heads.query(layer) == 0 => Mixer::None,
                _ if arch.sparse_layers && reader.heads.has_no_keys(layer) => Mixer::Linear,
                MixerRule::ScanAndAttention => {
                    let scan = reader.scan()?;
                    Mixer::ScanAndAttention(scan, reader.attention(layer, true)?)
                }
                _ => {
                    let has_kv = is_head || layer + shared < sizes.layers;
                    Mixer::Attention(reader.attention(layer, has_kv)?)
                }
            };
            let ffn =
                ffn.as_ref().map(|ffn| ffn[layer]).filter(|&ffn| ffn > 0 || arch.sparse_layers);
            reader.shapes.layers.push(LayerShape { mixer, ffn });
        }
        let Reader { ropes, mut shapes, .. } = reader;
        shapes.context = ropes.context().unwrap_or(sizes.context);
        shapes.ropes = ropes.all;
        shapes.check_cache_size(keys)?;
        // prefixes are shared by their pages of keys
        if shapes.caches.is_empty() && !shapes.states.is_empty() {
            let expected = "1 or more on some layer".to_owned();
            return Err(keys.invalid("attention.head_count_kv", 0, expected).into());
        }
        Ok(shapes)
    }

    /// Checks that the bytes of the caches of one sequence of the whole context, the largest
    /// product of keys, do not overflow.
    fn check_cache_size(&self, keys: &Keys<'_>) -> Result<(), Error> {
        let bytes = self.caches.iter().try_fold(0usize, |sum, cache| {
            let elements = cache.heads.checked_mul(cache.key_dim + cache.value_dim())?;
            sum.checked_add(elements.checked_mul(size_of::<f32>())?)
        });
        if bytes.and_then(|bytes| bytes.checked_mul(self.context)).is_some() {
            return Ok(());
        }
        let expected =
            format!("a context for which memory can address the {} KV caches", self.caches.len());
        Err(keys.invalid("context_length", self.context, expected).into())
    }

    fn group(&mut self, mask: Mask) -> usize {
        let group = CacheGroup { window: mask.window() };
        let known = self.groups.iter().position(|known| *known == group);
        known.unwrap_or_else(|| {
            self.groups.push(group);
            self.groups.len() - 1
        })
    }

    fn cache(&mut self, heads: usize, key_dim: usize, values: Values, mask: Mask) -> usize {
        let group = self.group(mask);
        self.caches.push(Cache { heads, key_dim, values, group });
        self.caches.len() - 1
    }

    fn state(&mut self, len: usize) -> usize {
        self.states.push(State { len });
        self.states.len() - 1
    }
}

/// The sources of the shapes of layers, and the shapes read so far.
struct Reader<'a, 'b> {
    arch: &'b Architecture,
    keys: &'b Keys<'a>,
    sizes: &'b Sizes,
    tensors: &'b mut Tensors<'a>,
    heads: Heads,
    ropes: Ropes<'a>,
    /// The width of each layer's window, if any.
    windows: Vec<Option<usize>>,
    /// Whether rows of a picture see each other in layers without a window, and in those with one.
    whole: [bool; 2],
    shapes: Shapes,
}

impl Reader<'_, '_> {
    fn attention(&mut self, layer: usize, has_kv: bool) -> Result<AttentionShape, Error> {
        let window = self.windows[layer];
        let local = window.is_some();
        let (heads, kv_heads) = (self.heads.query(layer), self.heads.kv(self.keys, layer)?);
        let [key_dim, value_dim] = self.heads.dims(local);
        let mask = match (self.shapes.causal, self.arch.window.chunked, window) {
            (false, _, window) => Mask::Symmetric { window },
            (true, true, Some(chunk)) => Mask::Chunked { chunk },
            (true, _, window) if self.whole[usize::from(local)] => Mask::CausalOrGroup { window },
            (true, _, window) => Mask::Causal { window },
        };
        let cache = match has_kv {
            true => self.shapes.cache(kv_heads, key_dim, Values::Own { dim: value_dim }, mask),
            false => self.earlier_cache(layer, local)?,
        };
        let rope = match self.rotates(layer)? {
            true => Some(self.ropes.rope(self.tensors, local, key_dim)?),
            false => None,
        };
        let temper = match self.arch.temper {
            Temper::Unrotated(beta, interval, offset) if rope.is_none() => {
                self.temper(Some(beta), interval, offset)?
            }
            Temper::Key => self.temper(None, self.ropes.original_context, 0)?,
            Temper::Unrotated(..) | Temper::None => None,
        };
        let scale = self.scale(heads, key_dim)?;
        Ok(AttentionShape {
            heads,
            kv_heads,
            key_dim,
            value_dim,
            mask,
            rope,
            temper,
            scale,
            cache,
            has_kv,
        })
    }

    /// The cache of the last layer before `layer` that has one, with a window as `layer` has.
    fn earlier_cache(&self, layer: usize, local: bool) -> Result<usize, Error> {
        let found =
            self.shapes.layers.iter().zip(&self.windows).rev().find_map(|(shape, window)| {
                match &shape.mixer {
                    Mixer::Attention(shape) if shape.has_kv && window.is_some() == local => {
                        Some(shape.cache)
                    }
                    _ => None,
                }
            });
        found.ok_or_else(|| {
            let name = "attention.shared_kv_layers";
            let expected = format!("an earlier layer with keys of the kind of layer {layer}");
            self.keys.invalid(name, self.sizes.layers - layer, expected).into()
        })
    }

    fn rotates(&self, layer: usize) -> Result<bool, Error> {
        Ok(match self.arch.rope.off {
            RopeOff::Never => true,
            RopeOff::Always => false,
            RopeOff::AlwaysAt(layers) => self.sizes.layers != layers,
            RopeOff::Full => self.windows[layer].is_some(),
            RopeOff::Every(n) => !(layer + 1).is_multiple_of(n),
            RopeOff::Unwindowed => {
                self.windows[layer].is_some() || self.windows.iter().all(Option::is_none)
            }
            RopeOff::Key => self.keys.opt_bool("rope.scaling.finetuned")?.unwrap_or(true),
            RopeOff::Pattern => {
                let name = "attention.rope_pattern";
                self.keys.opt_flags(name, self.sizes.all_layers)?.is_none_or(|all| all[layer])
            }
            RopeOff::UnwindowedExperts => {
                let name = "leading_dense_block_count";
                let dense = self.keys.opt_nonzero(name, MAX_SIZE)?.unwrap_or(0);
                self.windows[layer].is_some() || layer < dense
            }
        })
    }

    /// The growth of queries by the keys, or by these values where the file does not have them.
    fn temper(
        &self,
        beta: Option<f32>,
        interval: usize,
        offset: usize,
    ) -> Result<Option<Op>, Error> {
        let name = "attention.temperature_scale";
        let beta = match self.keys.metadata().get(&self.keys.key(name)) {
            Some(_) => self.keys.opt_nonnegative(name)?,
            None => beta,
        };
        let stated = self.keys.opt_size("attention.temperature_length", MAX_SIZE)?;
        let interval = stated.unwrap_or(interval);
        Ok(beta.map(|beta| Op::Temper { beta, interval, offset }))
    }

    fn scale(&self, heads: usize, key_dim: usize) -> Result<f32, Error> {
        let stated = self.arch.multipliers != Multipliers::None
            || matches!(
                self.arch.scale,
                AttentionScale::HiddenOverHeadsAt(_) | AttentionScale::Key
            );
        if stated && let Some(scale) = self.keys.opt_nonnegative("attention.scale")? {
            return Ok(scale);
        }
        let per_root = |dim: usize| (1.0 / (dim as f64).sqrt()) as f32;
        Ok(match self.arch.scale {
            AttentionScale::One => 1.0,
            AttentionScale::PerHeadDim => 1.0 / key_dim as f32,
            AttentionScale::HiddenOverHeadsAt(layers) if layers == self.sizes.layers => {
                per_root(self.sizes.hidden / heads)
            }
            AttentionScale::HiddenOverHeadsAt(_)
            | AttentionScale::Key
            | AttentionScale::HeadDim => per_root(key_dim),
        })
    }

    fn latent(&mut self, layer: usize) -> Result<Mixer, Error> {
        let keys = self.keys;
        let rank = keys.size("attention.kv_lora_rank", MAX_DIM)?;
        let rotated = keys.size("rope.dimension_count", MAX_DIM)?;
        let heads = self.heads.query(layer);
        let expanded = self.tensors.has(&format!("blk.{layer}.attn_kv_b.weight"));
        let (key_dim, value_dim) = match expanded {
            true => (
                keys.size("attention.key_length", MAX_DIM)?,
                // "If not specified, it will be n_embd / n_head." (docs/gguf.md)
                keys.opt_size("attention.value_length", MAX_DIM)?
                    .unwrap_or(self.sizes.hidden / heads)
                    .max(1),
            ),
            false => (
                keys.size("attention.key_length_mla", MAX_DIM)?,
                keys.size("attention.value_length_mla", MAX_DIM)?,
            ),
        };
        if rotated >= key_dim {
            let expected = format!("less than {key_dim}, the length of a key");
            return Err(keys.invalid("rope.dimension_count", rotated, expected).into());
        }
        let rope = self.ropes.rope(self.tensors, false, rotated)?;
        let mask = Mask::Causal { window: None };
        let cache = match expanded {
            true => self.shapes.cache(heads, key_dim, Values::Own { dim: value_dim }, mask),
            false => self.shapes.cache(1, rank + rotated, Values::KeyPrefix { dim: rank }, mask),
        };
        let magnitude = f64::from(self.ropes.latent_magnitude()?);
        Ok(Mixer::Latent(LatentShape {
            heads,
            rank,
            rotated,
            key_dim,
            value_dim,
            expanded,
            rope,
            temper: self.temper(None, self.ropes.original_context, 0)?,
            scale: (magnitude * magnitude / (key_dim as f64).sqrt()) as f32,
            cache,
        }))
    }

    fn delta(&mut self, tiled: bool) -> Result<Mixer, Error> {
        let keys = self.keys;
        let key_heads = keys.size("ssm.group_count", MAX_DIM)?;
        let value_heads = keys.size("ssm.time_step_rank", MAX_DIM)?;
        if !value_heads.is_multiple_of(key_heads) {
            let expected = format!("a multiple of the {key_heads} key heads");
            return Err(keys.invalid("ssm.time_step_rank", value_heads, expected).into());
        }
        let values_width = keys.size("ssm.inner_size", MAX_SIZE)?;
        if !values_width.is_multiple_of(value_heads) || values_width / value_heads > MAX_DIM {
            let expected = format!("a multiple of the {value_heads} value heads");
            return Err(keys.invalid("ssm.inner_size", values_width, expected).into());
        }
        let taps = self.taps("ssm.conv_kernel")?;
        let mut shape = DeltaShape {
            key_heads,
            value_heads,
            key_dim: keys.size("ssm.state_size", MAX_DIM)?,
            value_dim: values_width / value_heads,
            taps,
            grouped: !tiled,
            conv_state: 0,
            state: 0,
        };
        shape.conv_state = self.shapes.state((taps - 1) * shape.channels());
        shape.state = self.shapes.state(shape.values_width() * shape.key_dim);
        Ok(Mixer::Delta(shape))
    }

    fn short_conv(&mut self) -> Result<Mixer, Error> {
        let taps = self.taps("shortconv.l_cache")?;
        let state = self.shapes.state((taps - 1) * self.sizes.hidden);
        Ok(Mixer::ShortConv(ConvShape { taps, state }))
    }

    fn scan(&mut self) -> Result<ScanShape, Error> {
        let keys = self.keys;
        let heads = keys.size("ssm.time_step_rank", MAX_DIM)?;
        let inner = keys.size("ssm.inner_size", MAX_SIZE)?;
        if !inner.is_multiple_of(heads) || inner / heads > MAX_DIM {
            let expected = format!("a multiple of the {heads} heads, of at most {MAX_DIM} each");
            return Err(keys.invalid("ssm.inner_size", inner, expected).into());
        }
        let groups = keys.size("ssm.group_count", MAX_DIM)?;
        if !heads.is_multiple_of(groups) {
            let expected = format!("a divisor of the {heads} heads");
            return Err(keys.invalid("ssm.group_count", groups, expected).into());
        }
        let low = keys.opt_nonnegative("ssm.time_step_min")?.unwrap_or(0.0);
        let high = keys.opt_positive("ssm.time_step_max")?.unwrap_or(f32::MAX);
        if low > high {
            let expected = format!("at least {low}, the value of time_step_min");
            return Err(keys.invalid("ssm.time_step_max", high, expected).into());
        }
        let mut shape = ScanShape {
            heads,
            groups,
            head_dim: inner / heads,
            state_dim: keys.size("ssm.state_size", MAX_DIM)?,
            taps: self.taps("ssm.conv_kernel")?,
            steps: [low, high],
            conv_state: 0,
            state: 0,
        };
        shape.conv_state = self.shapes.state((shape.taps - 1) * shape.channels());
        shape.state = self.shapes.state(inner * shape.state_dim);
        Ok(shape)
    }

    /// The taps of a convolution.
    fn taps(&self, name: &str) -> Result<usize, Error> {
        let taps = self.keys.size(name, MAX_DIM)?;
        if taps < 2 {
            return Err(self.keys.invalid(name, taps, format!("2 to {MAX_DIM}")).into());
        }
        Ok(taps)
    }
}

/// The width of each layer's window, if any.
fn windows(
    arch: &Architecture,
    keys: &Keys<'_>,
    sizes: &Sizes,
) -> Result<Vec<Option<usize>>, Error> {
    let name = "attention.sliding_window";
    // llama.cpp's converter writes 0 for attention without a window
    let stated = keys.metadata().get(&keys.key(name)).is_some();
    let window = match stated {
        true => keys.opt_nonzero(name, MAX_SIZE)?,
        false => arch.window.default,
    };
    let name = "attention.sliding_window_pattern";
    if let Some(flags) = keys.opt_flags(name, sizes.all_layers)? {
        return Ok(flags.into_iter().map(|windowed| window.filter(|_| windowed)).collect());
    }
    let period = keys.opt_size(name, MAX_SIZE)?;
    let is_windowed = |layer: usize| match arch.window.pattern {
        Pattern::All => true,
        Pattern::LastFull(n) => !(layer + 1).is_multiple_of(period.unwrap_or(n)),
        Pattern::FirstFull(n) => !layer.is_multiple_of(period.unwrap_or(n)),
    };
    Ok((0..sizes.all_layers).map(|layer| window.filter(|_| is_windowed(layer))).collect())
}

/// Whether each layer has a recurrent state in place of attention.
fn recurrent_layers(
    arch: &Architecture,
    keys: &Keys<'_>,
    sizes: &Sizes,
) -> Result<Vec<bool>, Error> {
    match arch.mixer {
        MixerRule::Attention | MixerRule::Latent | MixerRule::ScanAndAttention => {
            return Ok(vec![false; sizes.all_layers]);
        }
        MixerRule::ShortConv | MixerRule::Scan => {
            let kv = keys.opt_sizes("attention.head_count_kv", sizes.all_layers, MAX_SIZE)?;
            return Ok((0..sizes.all_layers)
                .map(|layer| kv.as_ref().is_some_and(|kv| kv[layer] == 0))
                .collect());
        }
        MixerRule::Delta { .. } => {}
    }
    if let Some(flags) = keys.opt_flags("attention.recurrent_layers", sizes.all_layers)? {
        return Ok(flags);
    }
    let interval = keys.opt_size("full_attention_interval", MAX_SIZE)?.unwrap_or(4);
    Ok((0..sizes.all_layers).map(|layer| !(layer + 1).is_multiple_of(interval)).collect())
}
