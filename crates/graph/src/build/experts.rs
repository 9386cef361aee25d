//! Mixtures of experts.

use pelton_weights::MAX_SIZE;

use super::builder::Builder;
use crate::{
    Activation, BufferId, Error, ExpertGroups, ExpertLinear, Gating, Op, Part, Route, Scores,
    TableRow,
    arch::{FeedForward, Moe},
};

/// The greatest number of experts.
const MAX_EXPERTS: usize = 1 << 16;
/// The linear before experts that are narrower than the residual stream (Nemotron 3 Super).
const LATENT: &str = "ffn_latent_down.weight";

/// The numbers of experts of a layer, and the width of each.
#[derive(Clone, Copy)]
struct Sizes {
    experts: usize,
    used: usize,
    width: usize,
    /// Elements that an expert reads and writes.
    hidden: usize,
}

impl Builder<'_> {
    /// The sum of the chosen experts over `n`, and of the shared ones. The router reads `router`.
    pub(super) fn experts(
        &mut self,
        moe: &Moe,
        router: BufferId,
        n: BufferId,
        name: &'static str,
    ) -> Result<BufferId, Error> {
        let sizes = self.expert_sizes()?;
        let Sizes { experts, used, width, hidden } = sizes;
        let logits = self.linear("ffn_gate_inp", router, "router", experts)?;
        let route = self.route(moe, sizes)?;
        let [ids, weights] = [self.buffer("ids", used), self.buffer("weights", used)];
        self.step(Op::Route(route), &[logits], &[ids, weights]);

        let mut input = match self.has(LATENT) {
            true => self.linear("ffn_latent_down", n, "latent", hidden)?,
            false => n,
        };
        if moe.weigh_input {
            self.require_one(used)?;
            input = self.buffer("n_weighed", hidden);
            self.step(Op::Glu(Gating::Product(Activation::Identity)), &[weights, n], &[input]);
        }
        let g = self.expert_network(moe, sizes, input, ids)?;
        let down = self.expert_linear("ffn_down_exps", [experts, hidden, width], used, None)?;
        let mut o =
            self.buffer(if hidden == self.sizes.hidden { name } else { "o_latent" }, hidden);
        if moe.weigh_input {
            self.step(Op::ExpertLinear(down), &[g, ids], &[o]);
            self.expert_scale("ffn_down_exps", &down, [o, ids], experts)?;
        } else {
            let each = self.buffer("o_experts", used * hidden);
            self.step(Op::ExpertLinear(down), &[g, ids], &[each]);
            self.step(Op::ExpertSum { used }, &[each, weights], &[o]);
        }
        let bias = self.name("ffn_exps_sum.bias");
        if self.tensors.has(&bias) {
            let table = self.tensors.matrix(&bias, 1, hidden)?;
            self.in_place(Op::AddTable { table, row: TableRow::Fixed(0) }, o);
        }
        if self.has(LATENT) {
            o = self.linear("ffn_latent_up", o, name, self.sizes.hidden)?;
        }
        if self.has("ffn_up_shexp.weight") {
            self.shared_experts(n, o)?;
            if moe.mean_of_shared {
                self.in_place(Op::Scale(0.5), o);
            }
        }
        Ok(o)
    }

    fn expert_sizes(&self) -> Result<Sizes, Error> {
        let experts = self.keys.size("expert_count", MAX_EXPERTS)?;
        let used = self.keys.size("expert_used_count", experts)?;
        let stated =
            self.keys.opt_sizes("expert_feed_forward_length", self.sizes.all_layers, MAX_SIZE)?;
        let stated = stated.and_then(|all| all.get(self.layer.unwrap_or(0)).copied());
        // several keys stand for the width in files without that one
        let down = self.name("ffn_down_exps.weight");
        let width = stated.filter(|&width| width > 0).unwrap_or_else(|| self.tensors.dim(&down, 0));
        let latent = self.name(LATENT);
        let hidden = match self.tensors.has(&latent) {
            true => self.keys.size("moe_latent_size", MAX_SIZE)?,
            false => self.sizes.hidden,
        };
        Ok(Sizes { experts, used, width, hidden })
    }

    fn require_one(&self, used: usize) -> Result<(), Error> {
        if used == 1 {
            return Ok(());
        }
        Err(self
            .keys
            .invalid("expert_used_count", used, "1 in this architecture".to_owned())
            .into())
    }

    fn route(&mut self, moe: &Moe, sizes: Sizes) -> Result<Route, Error> {
        let Sizes { experts, used, .. } = sizes;
        let keys = self.keys;
        let has_bias = self.has("ffn_down_exps.bias");
        // Hunyuan 3's files have no suffix
        let bias_names = ["exp_probs_b.bias", "exp_probs_b"].map(|name| name.to_owned());
        let bias_name = bias_names.into_iter().find(|name| self.has(name)).unwrap_or_default();
        let name = "expert_gating_func";
        let scores = match keys.opt_nonzero(name, MAX_SIZE)? {
            None if self.has(&bias_name) => moe.biased_scores,
            None => moe.scores,
            Some(1) => Scores::Softmax,
            Some(2) => Scores::Sigmoid,
            Some(3) => Scores::SelectedSoftmax,
            Some(other) => {
                let expected = "1 (softmax), 2 (sigmoid) or 3 (softmax of the chosen ones)";
                return Err(keys.invalid(name, other, expected.to_owned()).into());
            }
        };
        let groups = self.expert_groups(scores, sizes)?;
        let names = [self.name(&bias_name), self.name("ffn_down_exps.scale")];
        let mut vector = |name: &String| -> Result<_, Error> {
            self.tensors.has(name).then(|| self.tensors.vector(name, experts)).transpose()
        };
        // a factor of the down linears is one of the weights, where these multiply the results
        let bias = vector(&names[0])?;
        let expert_scale = match moe.weigh_input || has_bias {
            true => None,
            false => vector(&names[1])?,
        };
        Ok(Route {
            experts,
            used,
            scores,
            bias,
            groups,
            normalize: keys.opt_bool("expert_weights_norm")?.unwrap_or(moe.normalize),
            scale: keys.opt_nonnegative("expert_weights_scale")?.unwrap_or(1.0),
            expert_scale,
        })
    }

    /// Groups of experts: with sigmoid the sum of the best two scores is a group's score (DeepSeek
    /// V3), with softmax the best one is (V2).
    fn expert_groups(&self, scores: Scores, sizes: Sizes) -> Result<Option<ExpertGroups>, Error> {
        let Sizes { experts, used, .. } = sizes;
        let (count_name, used_name) = ("expert_group_count", "expert_group_used_count");
        let Some(count) = self.keys.opt_nonzero(count_name, experts)?.filter(|&count| count > 1)
        else {
            return Ok(None);
        };
        let best = if scores == Scores::Sigmoid { 2 } else { 1 };
        if !experts.is_multiple_of(count) || experts / count < best {
            let expected = format!("a divisor of the {experts} experts");
            return Err(self.keys.invalid(count_name, count, expected).into());
        }
        let considered = self.keys.size(used_name, count)?;
        if considered * (experts / count) < used {
            let expected = format!("groups that have the {used} chosen experts");
            return Err(self.keys.invalid(used_name, considered, expected).into());
        }
        Ok(Some(ExpertGroups { count, used: considered, best }))
    }

    /// The chosen experts' networks before the down linear.
    fn expert_network(
        &mut self,
        moe: &Moe,
        Sizes { experts, used, width, hidden }: Sizes,
        n: BufferId,
        ids: BufferId,
    ) -> Result<BufferId, Error> {
        let shape = [experts, width, hidden];
        let [gate, up, g] = [
            self.buffer("gate_experts", used * width),
            self.buffer("up_experts", used * width),
            self.buffer("g_experts", used * width),
        ];
        let (gate_linear, up_linear, activation) = match (moe.gating, self.activation()?) {
            (None, FeedForward::Plain(activation)) => {
                let linear = self.expert_linear("ffn_up_exps", shape, used, None)?;
                self.step(Op::ExpertLinear(linear), &[n, ids], &[g]);
                self.expert_scale("ffn_up_exps", &linear, [g, ids], experts)?;
                self.in_place(Op::Activate(activation), g);
                return Ok(g);
            }
            (gating, FeedForward::Gated(activation) | FeedForward::Plain(activation)) => {
                let (gate, up) = match self.has("ffn_gate_up_exps.weight") {
                    true => {
                        let part = |first| Some(Part { first, of: 2 * width });
                        let name = "ffn_gate_up_exps";
                        (
                            self.expert_linear(name, shape, used, part(0))?,
                            self.expert_linear(name, shape, used, part(width))?,
                        )
                    }
                    false => (
                        self.expert_linear("ffn_gate_exps", shape, used, None)?,
                        self.expert_linear("ffn_up_exps", shape, used, None)?,
                    ),
                };
                (gate, up, gating.unwrap_or(Gating::Product(activation)))
            }
        };
        let names = match self.has("ffn_gate_up_exps.weight") {
            true => ["ffn_gate_up_exps"; 2],
            false => ["ffn_gate_exps", "ffn_up_exps"],
        };
        for (name, linear, y) in [(names[0], gate_linear, gate), (names[1], up_linear, up)] {
            self.step(Op::ExpertLinear(linear), &[n, ids], &[y]);
            self.expert_scale(name, &linear, [y, ids], experts)?;
        }
        self.step(Op::Glu(activation), &[gate, up], &[g]);
        Ok(g)
    }

    fn expert_linear(
        &mut self,
        part: &str,
        shape: [usize; 3],
        used: usize,
        rows: Option<Part>,
    ) -> Result<ExpertLinear, Error> {
        let name = self.name(&format!("{part}.weight"));
        let weight = self.tensors.matrices(&name, shape, rows)?;
        let name = self.name(&format!("{part}.bias"));
        let [experts, outputs, _] = shape;
        let bias = match self.tensors.has(&name) && rows.is_none() {
            true => Some(self.tensors.matrix(&name, experts, outputs)?),
            false => None,
        };
        Ok(ExpertLinear { weight, bias, used })
    }

    /// Multiplies the results of experts by `part.scale` `[experts]`, where the file has that, as
    /// next to NVFP4 weights. It is no factor of biases: files with both are refused, as the
    /// tensor is left unused.
    fn expert_scale(
        &mut self,
        part: &str,
        linear: &ExpertLinear,
        [y, ids]: [BufferId; 2],
        experts: usize,
    ) -> Result<(), Error> {
        let name = self.name(&format!("{part}.scale"));
        if linear.bias.is_none() && self.tensors.has(&name) {
            let factors = self.tensors.vector(&name, experts)?;
            self.step(Op::ExpertScale { factors, used: linear.used }, &[y, ids], &[y]);
        }
        Ok(())
    }

    /// Adds the network of the experts that all rows have to `o`, times the sigmoid of its gate if
    /// it has one.
    fn shared_experts(&mut self, n: BufferId, o: BufferId) -> Result<(), Error> {
        let up = self.name("ffn_up_shexp.weight");
        let width = self.tensors.dim(&up, 1);
        let stated = self.keys.opt_nonzero("expert_shared_feed_forward_length", MAX_SIZE)?;
        let names = ["ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"];
        let shared = self.network(names, stated.unwrap_or(width), n, "o_shared")?;
        if self.has("ffn_gate_inp_shexp.weight") {
            let gate = self.linear("ffn_gate_inp_shexp", n, "gate_shared", 1)?;
            let sigmoid = Op::Glu(Gating::Product(Activation::Sigmoid));
            self.step(sigmoid, &[gate, shared], &[shared]);
        }
        self.add(o, shared);
        Ok(())
    }
}
