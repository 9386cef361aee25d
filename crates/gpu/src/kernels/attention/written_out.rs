//! The kernel for matrix cores in plain WGSL, for tests on devices that have none.

use super::{Attention, WorkSplit};

/// The operations of matrix cores and subgroups of 32, written out. Keys and values stay in
/// workgroup memory. Lane `l` of 32 holds row `l / 2` of queries and weights, and 8 elements of row
/// `l / 2` of sums.
pub(super) fn written_out(source: &str, attention: &Attention, cores: &WorkSplit) -> String {
    let mut out = String::new();
    for line in source.lines().filter(|line| !line.starts_with("enable wgpu")) {
        out.push_str(&written(line));
        out.push('\n');
    }
    let row = |dim: usize| dim.div_ceil(16) * 4 + 2;
    let (key_stride, value_stride) = (row(attention.key_dim), row(attention.value_dim));
    let score_stride = (cores.step + if cores.step == 32 { 8 } else { 4 }) / 4;
    let weight_stride = (cores.step + 8) / 4;
    let threads = cores.subgroups * 32;
    out + &format!(
        "struct Sums {{ v: array<f32, 8> }}
        struct Half {{ v: array<f32, 16> }}
        var<workgroup> exchange: array<f32, {threads}>;
        // a bound that drivers cannot unroll loops by
        fn bound(n: u32) -> u32 {{
            return select(n, 0u, arrayLength(&tables) == 0u);
        }}
        fn multiply_keys(lane: u32, a: Half, at: u32, c: Sums) -> Sums {{
            var out = c;
            var half = a;
            for (var e = 0u; e < bound(8u); e++) {{
                let key = at + (lane % 2u * 8u + e) * {key_stride}u;
                for (var k = 0u; k < bound(16u); k++) {{
                    out.v[e] += half.v[k] * f32(key_tile[key + k / 4u][k % 4u]);
                }}
            }}
            return out;
        }}
        fn multiply_values(lane: u32, a: Half, at: u32, c: Sums) -> Sums {{
            var out = c;
            var half = a;
            for (var e = 0u; e < bound(8u); e++) {{
                let j = lane % 2u * 8u + e;
                for (var k = 0u; k < bound(16u); k++) {{
                    out.v[e] += half.v[k] * f32(value_tile[at + k * {value_stride}u + j / 4u][j % 4u]);
                }}
            }}
            return out;
        }}
        fn load_half(lane: u32, at: u32) -> Half {{
            var out: Half;
            for (var k = 0u; k < bound(16u); k++) {{
                out.v[k] = f32(weights[at + lane / 2u * {weight_stride}u + k / 4u][k % 4u]);
            }}
            return out;
        }}
        fn load_sums(lane: u32, at: u32) -> Sums {{
            var out: Sums;
            for (var e = 0u; e < bound(8u); e++) {{
                out.v[e] = scores[at + lane / 2u * {score_stride}u + lane % 2u * 2u + e / 4u][e % 4u];
            }}
            return out;
        }}
        fn store_sums(lane: u32, sums: Sums, at: u32) {{
            var s = sums;
            for (var e = 0u; e < bound(8u); e += 4u) {{
                scores[at + lane / 2u * {score_stride}u + lane % 2u * 2u + e / 4u] =
                    vec4(s.v[e], s.v[e + 1u], s.v[e + 2u], s.v[e + 3u]);
            }}
        }}
        fn shuffle(index: u32, value: f32, mask: u32) -> f32 {{
            workgroupBarrier();
            exchange[index] = value;
            workgroupBarrier();
            return exchange[index ^ mask];
        }}
        // of the workgroup, so that all of it waits at the same barriers
        fn any_of(index: u32, value: bool) -> bool {{
            workgroupBarrier();
            exchange[index] = select(0.0, 1.0, value);
            workgroupBarrier();
            var sum = 0.0;
            for (var i = 0u; i < bound({threads}u); i++) {{
                sum += exchange[i];
            }}
            return sum > 0.0;
        }}"
    )
}

fn written(line: &str) -> String {
    let parts = |from: usize| {
        let pointer = &line[from..];
        let (array, rest) = pointer.split_once('[').unwrap();
        let (at, _) = rest.rsplit_once("], ").unwrap();
        (array.to_owned(), at.to_owned())
    };
    if let Some(begin) = line.find("coopLoad") {
        let (array, at) = parts(line.find("(&").unwrap() + 2);
        let (before, kind) = (&line[..begin], &line[begin..]);
        return match array.as_str() {
            "weights" => format!("{before}load_half(lane, {at});"),
            "scores" => format!("{before}load_sums(lane, {at});"),
            "key_tile" => {
                // by columns
                assert!(!kind.starts_with("coopLoadT"), "{line}");
                format!("{before}{at};")
            }
            "value_tile" => {
                assert!(kind.starts_with("coopLoadT"), "{line}");
                format!("{before}{at};")
            }
            _ => panic!("{line}"),
        };
    }
    if let Some(begin) = line.find("coopStoreT(") {
        let (_, at) = parts(line.find(", &").unwrap() + 3);
        let sums = &line[begin + "coopStoreT(".len()..line.find(", &").unwrap()];
        return format!("{}store_sums(lane, {sums}, {at});", &line[..begin]);
    }
    line.replace("coopMultiplyAdd(q", "multiply_keys(lane, q")
        .replace("coopMultiplyAdd(w", "multiply_values(lane, w")
        .replace("coop_mat16x16<f32, C>()", "Sums()")
        .replace("subgroupBarrier()", "workgroupBarrier()")
        .replace("subgroupAny(", "any_of(index, ")
        .replace("subgroupShuffleXor(", "shuffle(index, ")
        .replace(
            "@builtin(subgroup_id) subgroup: u32,",
            "@builtin(local_invocation_index) index: u32,",
        )
        .replace("@builtin(subgroup_invocation_id) lane: u32,", "")
        .replace("let thread =", "let subgroup = index / 32u; let lane = index % 32u; let thread =")
}
