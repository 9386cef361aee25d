//! Transforms of tensors, used by the tables of names.

use super::config::Config;
use super::gather::View;
use super::rules::Part;

type Parts = Result<Vec<Part>, String>;

/// `[rows, columns]`, for weights and, with one column, for biases.
fn matrix(shape: &[usize]) -> Result<(usize, usize), String> {
    match *shape {
        [rows] => Ok((rows, 1)),
        [rows, columns] => Ok((rows, columns)),
        _ => Err("one or two dimensions".to_owned()),
    }
}

/// A size of the configuration that is at least 1.
fn config_size(config: &Config, key: &str) -> Result<usize, String> {
    config.all.required_size(&[key]).map_err(|error| error.problem().to_string())
}

fn require(condition: bool, expected: impl FnOnce() -> String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(expected()) }
}

/// A convolution of width 1 of GPT-2 `[inputs, outputs]`; biases stay as they are.
pub(super) fn transposed_matrix(_: &Config, shape: &[usize]) -> Parts {
    match shape {
        [_] => Ok(vec![Part::of("", View::new(shape))]),
        [_, _] => Ok(vec![Part::of("", View::new(shape).swapped(0, 1))]),
        _ => Err("one or two dimensions".to_owned()),
    }
}

/// Experts `[experts, inputs, outputs]` of which the last dimensions are swapped.
pub(super) fn transposed_experts(_: &Config, shape: &[usize]) -> Parts {
    require(shape.len() == 3, || "three dimensions".to_owned())?;
    Ok(vec![Part::of("", View::new(shape).swapped(1, 2))])
}

/// Stacked experts `[experts · width, inputs]` of nomic-embed-text 2: the view
/// `[experts, width, inputs]`.
fn nomic_experts(config: &Config, shape: &[usize]) -> Result<View, String> {
    let experts = config_size(config, "num_experts")?;
    let (rows, columns) = matrix(shape)?;
    require(rows.is_multiple_of(experts), || format!("a multiple of {experts} rows"))?;
    Ok(View::new(&[experts, rows / experts, columns]))
}

/// First linears of the experts of nomic-embed-text 2.
pub(super) fn nomic_up(config: &Config, shape: &[usize]) -> Parts {
    Ok(vec![Part::of("", nomic_experts(config, shape)?)])
}

/// Second linears of the experts of nomic-embed-text 2, which are stored transposed.
pub(super) fn nomic_down(config: &Config, shape: &[usize]) -> Parts {
    Ok(vec![Part::of("", nomic_experts(config, shape)?.swapped(1, 2))])
}

/// Stacked experts `[experts · width, inputs]` of DBRX: the view `[experts, width, inputs]`.
fn dbrx_experts(config: &Config, shape: &[usize]) -> Result<View, String> {
    let own = config.all.object("ffn_config").ok().flatten();
    let experts = own.and_then(|own| own.size(&["moe_num_experts"]).ok().flatten()).unwrap_or(0);
    let (rows, columns) = matrix(shape)?;
    require(experts > 0 && rows.is_multiple_of(experts), || {
        format!("a multiple of {experts} rows")
    })?;
    Ok(View::new(&[experts, rows / experts, columns]))
}

/// First linears of the experts of DBRX.
pub(super) fn dbrx_up(config: &Config, shape: &[usize]) -> Parts {
    Ok(vec![Part::of("", dbrx_experts(config, shape)?)])
}

/// Second linears of the experts of DBRX, which are stored transposed.
pub(super) fn dbrx_down(config: &Config, shape: &[usize]) -> Parts {
    Ok(vec![Part::of("", dbrx_experts(config, shape)?.swapped(1, 2))])
}

/// The two halves of the rows.
fn halves(shape: &[usize], view: View, first: &'static str, second: &'static str) -> Parts {
    let Some(dim) = shape.len().checked_sub(2) else {
        return Err("at least two dimensions".to_owned());
    };
    let rows = shape[dim];
    require(rows.is_multiple_of(2), || "an even number of rows".to_owned())?;
    let half = rows / 2;
    Ok(vec![
        Part::of(first, view.clone().narrow(dim, 0, half)),
        Part::of(second, view.narrow(dim, half, half)),
    ])
}

/// Stacked experts `[experts, gate and up, inputs]`.
pub(super) fn gate_up_experts(_: &Config, shape: &[usize]) -> Parts {
    require(shape.len() == 3, || "three dimensions".to_owned())?;
    halves(shape, View::new(shape), "ffn_gate_exps.weight", "ffn_up_exps.weight")
}

/// Stacked experts `[experts, inputs, gate and up]` of Llama 4.
pub(super) fn transposed_gate_up_experts(_: &Config, shape: &[usize]) -> Parts {
    require(shape.len() == 3, || "three dimensions".to_owned())?;
    let view = View::new(shape).swapped(1, 2);
    halves(&view.shape(), view, "ffn_gate_exps.weight", "ffn_up_exps.weight")
}

/// Experts of Qwen3-VL `[experts, outputs, inputs]`, as transformers saves them. Published files
/// have the last two dimensions swapped.
fn of_qwen3_vl(shape: &[usize], rows: usize, columns: usize) -> Result<View, String> {
    let expected = || format!("[experts, {rows}, {columns}] or [experts, {columns}, {rows}]");
    let view = View::new(shape);
    match *shape {
        [_, a, b] if [a, b] == [rows, columns] => Ok(view),
        [_, a, b] if [a, b] == [columns, rows] => Ok(view.swapped(1, 2)),
        _ => Err(expected()),
    }
}

/// First linears of the experts of Qwen3-VL.
pub(super) fn qwen3_vl_gate_up(config: &Config, shape: &[usize]) -> Parts {
    let inner = config_size(config, "moe_intermediate_size")?;
    let view = of_qwen3_vl(shape, inner.saturating_mul(2), config.hidden)?;
    halves(&view.shape(), view, "ffn_gate_exps.weight", "ffn_up_exps.weight")
}

/// Second linears of the experts of Qwen3-VL.
pub(super) fn qwen3_vl_down(config: &Config, shape: &[usize]) -> Parts {
    let inner = config_size(config, "moe_intermediate_size")?;
    Ok(vec![Part::of("", of_qwen3_vl(shape, config.hidden, inner)?)])
}

/// Gate and up `[gate and up, inputs]` of a dense network.
pub(super) fn gate_up(_: &Config, shape: &[usize]) -> Parts {
    halves(shape, View::new(shape), "ffn_gate.weight", "ffn_up.weight")
}

/// Gate and up `[gate and up, inputs]` of a shared expert.
pub(super) fn gate_up_shared(_: &Config, shape: &[usize]) -> Parts {
    halves(shape, View::new(shape), "ffn_gate_shexp.weight", "ffn_up_shexp.weight")
}

/// Stacked experts of gpt-oss `[experts, inputs, gate and up]`, where gate and up alternate.
pub(super) fn alternating_experts(_: &Config, shape: &[usize]) -> Parts {
    require(shape.len() == 3 && shape[2].is_multiple_of(2), || {
        "three dimensions, the last of them even".to_owned()
    })?;
    let view = View::new(shape).swapped(1, 2);
    Ok(vec![
        Part::of("ffn_gate_exps.weight", view.clone().every(1, 0, 2)),
        Part::of("ffn_up_exps.weight", view.every(1, 1, 2)),
    ])
}

/// Biases of gpt-oss's experts `[experts, gate and up]`, where gate and up alternate.
pub(super) fn alternating_biases(_: &Config, shape: &[usize]) -> Parts {
    require(shape.len() == 2 && shape[1].is_multiple_of(2), || {
        "two dimensions, the last of them even".to_owned()
    })?;
    let view = View::new(shape);
    Ok(vec![
        Part::of("ffn_gate_exps.bias", view.clone().every(1, 0, 2)),
        Part::of("ffn_up_exps.bias", view.every(1, 1, 2)),
    ])
}

/// The rows of heads, whose halves change places.
pub(super) fn swapped_halves(config: &Config, shape: &[usize]) -> Parts {
    let (rows, columns) = matrix(shape)?;
    let dim = config.head_dim;
    let expected = || format!("a multiple of {dim} rows, an even number");
    require(dim.is_multiple_of(2) && rows.is_multiple_of(dim), expected)?;
    let view = View::new(&[rows / dim, 2, dim / 2, columns]);
    let halves = [1, 0].map(|half| view.clone().narrow(1, half, 1));
    let mut views = Vec::new();
    for head in 0..rows / dim {
        views.extend(halves.iter().map(|half| half.clone().narrow(0, head, 1)));
    }
    Ok(vec![Part { to: "", views, shape: shape.to_vec() }])
}

/// GPT-NeoX's rows, which are query, key and value of each head in turn.
pub(super) fn qkv_by_head(config: &Config, shape: &[usize]) -> Parts {
    let (rows, columns) = matrix(shape)?;
    let heads = config.heads;
    require(rows.is_multiple_of(3 * heads), || format!("a multiple of 3 × {heads} rows"))?;
    let view = View::new(&[heads, 3, rows / heads / 3, columns]).swapped(0, 1);
    Ok(vec![Part { to: "", views: vec![view], shape: shape.to_vec() }])
}

/// The views of queries, keys and values in rows of Falcon and InternLM 2. Such rows are groups of
/// some query heads, a key head and a value head.
fn groups(config: &Config, shape: &[usize], kv_heads: usize) -> Result<[View; 3], String> {
    let (rows, columns) = matrix(shape)?;
    let heads = config.heads;
    require(kv_heads > 0 && heads.is_multiple_of(kv_heads), || {
        format!("a number of key-value heads that divides {heads}")
    })?;
    let group = heads / kv_heads + 2;
    let expected = || format!("a multiple of {kv_heads} × {group} rows");
    require(rows.is_multiple_of(kv_heads * group), expected)?;
    let view = View::new(&[kv_heads, group, rows / kv_heads / group, columns]);
    Ok([
        view.clone().narrow(1, 0, group - 2),
        view.clone().narrow(1, group - 2, 1),
        view.narrow(1, group - 1, 1),
    ])
}

/// Falcon's rows.
pub(super) fn falcon_qkv(config: &Config, shape: &[usize]) -> Parts {
    let kv_heads = falcon_kv_heads(config)?;
    let views = groups(config, shape, kv_heads)?.to_vec();
    Ok(vec![Part { to: "", views, shape: shape.to_vec() }])
}

/// Number of key-value heads of Falcon: `num_kv_heads` counts in the new architecture only.
pub(super) fn falcon_kv_heads(config: &Config) -> Result<usize, String> {
    let flag = |key| config.all.flag(&[key]).map_err(|error| error.problem().to_string());
    if flag("new_decoder_architecture")? == Some(true) {
        return config.kv_heads().map_err(|error| error.problem().to_string());
    }
    Ok(if flag("multi_query")? == Some(true) { 1 } else { config.heads })
}

/// InternLM 2's `wqkv`.
pub(super) fn internlm_qkv(config: &Config, shape: &[usize]) -> Parts {
    let kv_heads = config.kv_heads().map_err(|error| error.problem().to_string())?;
    let (_, columns) = matrix(shape)?;
    let part = |to, view: View| {
        let rows = view.len() / columns;
        Part { to, views: vec![view], shape: vec![rows, columns] }
    };
    let [q, k, v] = groups(config, shape, kv_heads)?;
    Ok(vec![part("attn_q.weight", q), part("attn_k.weight", k), part("attn_v.weight", v)])
}

/// Rows of all queries, all keys and all values.
pub(super) fn qkv_rows(config: &Config, shape: &[usize]) -> Parts {
    let kv_heads = config.kv_heads().map_err(|error| error.problem().to_string())?;
    let (rows, columns) = matrix(shape)?;
    let heads = config.heads.saturating_add(kv_heads.saturating_mul(2));
    require(kv_heads > 0 && rows.is_multiple_of(heads), || format!("a multiple of {heads} rows"))?;
    let dim = rows / heads;
    let [query, key] = [config.heads * dim, kv_heads * dim];
    let view = View::new(&[rows, columns]);
    let part = |to, first, rows| Part::of(to, view.clone().narrow(0, first, rows));
    Ok(vec![
        part("attn_q.weight", 0, query),
        part("attn_k.weight", query, key),
        part("attn_v.weight", query + key, key),
    ])
}

/// DeepSeek's `kv_b_proj` `[heads × (nope + value), rank]`: the keys' part `[heads, rank, nope]`
/// and the values' `[heads, value, rank]`.
pub(super) fn latent_kv(config: &Config, shape: &[usize]) -> Parts {
    let (rows, rank) = matrix(shape)?;
    let nope = config_size(config, "qk_nope_head_dim")?;
    let heads = config.heads;
    let value = match config.all.get("v_head_dim") {
        // by MiniCPM 3
        None => config.hidden / heads,
        Some(_) => config_size(config, "v_head_dim")?,
    };
    let expected = heads.saturating_mul(nope + value);
    require(rows == expected, || format!("{heads} × ({nope} + {value}) rows"))?;
    let view = View::new(&[heads, nope + value, rank]);
    Ok(vec![
        Part::of("attn_k_b.weight", view.clone().narrow(1, 0, nope).swapped(1, 2)),
        Part::of("attn_v_b.weight", view.narrow(1, nope, value)),
    ])
}

/// RoBERTa's position embeddings, of which the rows up to `pad_token_id` are unused.
pub(super) fn positions_after_padding(config: &Config, shape: &[usize]) -> Parts {
    let (rows, _) = matrix(shape)?;
    let padding =
        config.all.size(&["pad_token_id"]).map_err(|error| error.problem().to_string())?;
    let first = padding.map_or(0, |id| id + 1);
    require(first < rows, || format!("more than {first} rows"))?;
    Ok(vec![Part::of("", View::new(shape).narrow(0, first, rows - first))])
}

/// Sizes of linear attention.
struct Delta {
    key_heads: usize,
    /// Value heads per key head.
    repeats: usize,
    key_dim: usize,
    value_dim: usize,
}

impl Delta {
    fn read(config: &Config) -> Result<Self, String> {
        let key_heads = config_size(config, "linear_num_key_heads")?;
        let value_heads = config_size(config, "linear_num_value_heads")?;
        require(value_heads.is_multiple_of(key_heads), || {
            format!("linear_num_value_heads {value_heads} to be a multiple of {key_heads}")
        })?;
        let delta = Self {
            key_heads,
            repeats: value_heads / key_heads,
            key_dim: config_size(config, "linear_key_head_dim")?,
            value_dim: config_size(config, "linear_value_head_dim")?,
        };
        let keys = delta.key_heads.checked_mul(delta.key_dim);
        let values = value_heads.checked_mul(delta.value_dim);
        let rows =
            keys.zip(values).and_then(|(keys, values)| keys.checked_mul(4)?.checked_add(values));
        require(rows.is_some(), || "sizes whose product memory can address".to_owned())?;
        Ok(delta)
    }

    fn key_rows(&self) -> usize {
        self.key_heads * self.key_dim
    }

    fn value_rows(&self) -> usize {
        self.key_heads * self.repeats * self.value_dim
    }

    /// Value heads `[key heads, repeats, width, columns]` as `[repeats, key heads, …]`: GGUF
    /// orders them so that value head `h` belongs to key head `h mod key_heads`.
    fn tiled(&self, width: usize, columns: usize) -> View {
        View::new(&[self.key_heads, self.repeats, width, columns]).swapped(0, 1)
    }

    /// The value heads after `rows` other rows.
    fn tiled_after(&self, rows: usize, columns: usize) -> View {
        let all = View::new(&[rows + self.value_rows(), columns]);
        let tail = all.narrow(0, rows, self.value_rows());
        tail.split(0, &[self.key_heads, self.repeats, self.value_dim]).swapped(0, 1)
    }
}

/// Queries, keys and values of linear attention, also the channels of its convolution: the value
/// heads are reordered.
pub(super) fn delta_qkv(config: &Config, shape: &[usize]) -> Parts {
    let delta = Delta::read(config)?;
    let shape: Vec<_> = match *shape {
        [channels, 1, width] => vec![channels, width],
        _ => shape.to_vec(),
    };
    let (rows, columns) = matrix(&shape)?;
    let first = 2 * delta.key_rows();
    require(rows == first + delta.value_rows(), || format!("{} rows", first + delta.value_rows()))?;
    let head = View::new(&[rows, columns]).narrow(0, 0, first);
    Ok(vec![Part { to: "", views: vec![head, delta.tiled_after(first, columns)], shape }])
}

/// Rows of value heads, reordered.
pub(super) fn delta_values(config: &Config, shape: &[usize]) -> Parts {
    let delta = Delta::read(config)?;
    let (rows, columns) = matrix(shape)?;
    require(rows == delta.value_rows(), || format!("{} rows", delta.value_rows()))?;
    let view = delta.tiled(delta.value_dim, columns);
    Ok(vec![Part { to: "", views: vec![view], shape: shape.to_vec() }])
}

/// One row a value head, reordered.
pub(super) fn delta_heads(config: &Config, shape: &[usize]) -> Parts {
    let delta = Delta::read(config)?;
    let (rows, columns) = matrix(shape)?;
    let heads = delta.key_heads * delta.repeats;
    require(rows == heads, || format!("{heads} rows"))?;
    let view = delta.tiled(1, columns);
    Ok(vec![Part { to: "", views: vec![view], shape: shape.to_vec() }])
}

/// Columns of value heads, reordered.
pub(super) fn delta_columns(config: &Config, shape: &[usize]) -> Parts {
    let delta = Delta::read(config)?;
    let (rows, columns) = matrix(shape)?;
    require(columns == delta.value_rows(), || format!("rows of {}", delta.value_rows()))?;
    let view = View::new(&[rows, delta.key_heads, delta.repeats, delta.value_dim]).swapped(1, 2);
    Ok(vec![Part { to: "", views: vec![view], shape: shape.to_vec() }])
}

/// An element of each head of a selective scan as a matrix of one column.
pub(super) fn column(_: &Config, shape: &[usize]) -> Parts {
    let [len] = *shape else { return Err("one dimension".to_owned()) };
    Ok(vec![Part::of("", View::new(&[len, 1]))])
}

/// As [`column()`], of the factors of inputs.
pub(super) fn scan_skip(config: &Config, shape: &[usize]) -> Parts {
    let mut parts = column(config, shape)?;
    parts.iter_mut().for_each(|part| part.to = "ssm_d");
    Ok(parts)
}

/// The factors of the norm of a selective scan, group by group.
pub(super) fn scan_norm(config: &Config, shape: &[usize]) -> Parts {
    let groups = config.all.size(&["mamba_n_groups", "n_groups"]);
    let groups = groups.map_err(|error| error.problem().to_string())?.unwrap_or(1);
    let [len] = *shape else { return Err("one dimension".to_owned()) };
    require(groups > 0 && len.is_multiple_of(groups), || {
        format!("a number of groups that divides {len}")
    })?;
    Ok(vec![Part::of("ssm_norm.weight", View::new(&[groups, len / groups]))])
}

/// Qwen3-Next's `in_proj_qkvz`, whose rows are query, key, values and gates of each key head in
/// turn.
pub(super) fn delta_qkvz(config: &Config, shape: &[usize]) -> Parts {
    let delta = Delta::read(config)?;
    let (rows, columns) = matrix(shape)?;
    let values = delta.repeats * delta.value_dim;
    let group = 2 * delta.key_dim + 2 * values;
    require(rows == delta.key_heads * group, || format!("{} rows", delta.key_heads * group))?;
    let view = View::new(&[delta.key_heads, group, columns]);
    let at = |start, len| view.clone().narrow(1, start, len);
    let key_dim = delta.key_dim;
    let qkv = vec![at(0, key_dim), at(key_dim, key_dim), at(2 * key_dim, values)];
    let qkv_rows = 2 * delta.key_rows() + delta.value_rows();
    Ok(vec![
        Part { to: "attn_qkv.weight", views: qkv, shape: vec![qkv_rows, columns] },
        Part {
            to: "attn_gate.weight",
            views: vec![at(2 * key_dim + values, values)],
            shape: vec![delta.value_rows(), columns],
        },
    ])
}
