//! The tensors of a model, by OpenAI's names.

use super::Sizes;

/// The embedding of tokens, which is the output layer too.
pub(crate) const TOKEN_EMBEDDING: &str = "decoder.token_embedding.weight";

/// The use of a tensor, which decides on its types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A matrix, in any type.
    Matrix,
    /// A bias, or a weight of a norm.
    Vector,
    /// The kernel of a convolution, in F16 or F32: its rows have three values.
    Convolution,
    /// A table of positions, in F16 or F32.
    Positions,
}

/// A tensor that a model of certain sizes has.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub(crate) name: String,
    /// Innermost dimension first.
    pub(crate) shape: Vec<usize>,
    pub(crate) kind: Kind,
}

/// All tensors of a model, in the order of a forward pass.
pub(crate) fn expected(sizes: &Sizes) -> Vec<Expected> {
    let width = sizes.width;
    let mut all = List(Vec::new());
    for (name, inputs) in [("conv1", sizes.mels), ("conv2", width)] {
        all.add(&format!("encoder.{name}.weight"), &[3, inputs, width], Kind::Convolution);
        all.add(&format!("encoder.{name}.bias"), &[width], Kind::Vector);
    }
    let positions = [width, sizes.encoder.context];
    all.add("encoder.positional_embedding", &positions, Kind::Positions);
    for layer in 0..sizes.encoder.layers {
        let block = format!("encoder.blocks.{layer}");
        all.attention(&block, "attn", width);
        all.feed_forward(&block, width, sizes.encoder.inner);
    }
    all.norm("encoder.ln_post", width);
    all.add(TOKEN_EMBEDDING, &[width, sizes.vocab], Kind::Matrix);
    let positions = [width, sizes.decoder.context];
    all.add("decoder.positional_embedding", &positions, Kind::Positions);
    for layer in 0..sizes.decoder.layers {
        let block = format!("decoder.blocks.{layer}");
        all.attention(&block, "attn", width);
        all.attention(&block, "cross_attn", width);
        all.feed_forward(&block, width, sizes.decoder.inner);
    }
    all.norm("decoder.ln", width);
    all.0
}

struct List(Vec<Expected>);

impl List {
    fn add(&mut self, name: &str, shape: &[usize], kind: Kind) {
        self.0.push(Expected { name: name.to_owned(), shape: shape.to_vec(), kind });
    }

    fn norm(&mut self, name: &str, width: usize) {
        self.add(&format!("{name}.weight"), &[width], Kind::Vector);
        self.add(&format!("{name}.bias"), &[width], Kind::Vector);
    }

    fn linear(&mut self, name: &str, shape: [usize; 2], bias: bool) {
        self.add(&format!("{name}.weight"), &shape, Kind::Matrix);
        if bias {
            self.add(&format!("{name}.bias"), &shape[1..], Kind::Vector);
        }
    }

    /// A norm and attention; keys have no bias.
    fn attention(&mut self, block: &str, name: &str, width: usize) {
        self.norm(&format!("{block}.{name}_ln"), width);
        for (part, bias) in [("query", true), ("key", false), ("value", true), ("out", true)] {
            self.linear(&format!("{block}.{name}.{part}"), [width, width], bias);
        }
    }

    fn feed_forward(&mut self, block: &str, width: usize, inner: usize) {
        self.norm(&format!("{block}.mlp_ln"), width);
        self.linear(&format!("{block}.mlp.0"), [width, inner], true);
        self.linear(&format!("{block}.mlp.2"), [inner, width], true);
    }
}
