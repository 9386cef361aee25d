//! Attention with keys and values of different lengths, and with rows that see later ones, compared
//! with f64 arithmetic.

use pelton_graph::{Input, KvType, Place, alibi_slope};

use super::{tests::prompt_kernel, *};
use crate::{
    kernels::rope_store::Store,
    testing::{compiled, device, normals},
};

const TABLE: usize = 4;

/// Runs the store and attention of whole sequences of these lengths, and compares each row.
fn check(attention: Attention, lengths: &[usize]) {
    let Some(device) = device() else { return };
    let Attention {
        heads,
        key_dim,
        value_dim,
        prefix,
        scale,
        mask,
        softcap: _,
        sinks: _,
        alibi,
        caches,
    } = attention;
    let kv_heads = caches.kv_heads;
    let mut rows = Vec::new();
    let mut words: Vec<[u32; 4]> = Vec::new();
    for (slot, &len) in (0..).zip(lengths) {
        for position in 0..len as u32 {
            rows.push(Row { input: Input::Token(7), position, slot });
            words.push([7, position, slot, len as u32]);
        }
    }
    let count = rows.len();
    let pages: Vec<u32> = (0..(lengths.len() * TABLE) as u32).rev().collect();
    let q = normals(1, count * heads * key_dim);
    let (k, v) = (normals(2, count * kv_heads * key_dim), normals(3, count * kv_heads * value_dim));
    let empty = |dim: usize| {
        device.with(&vec![0xffu8; caches.kv.keys.bytes(pages.len() * kv_heads * PAGE * dim)])
    };
    let (keys, values) = (empty(key_dim), empty(value_dim));
    let (row_buffer, tables) = (device.with(&words), device.with(&pages));
    let (q_buffer, k_buffer, v_buffer) = (device.with(&q), device.with(&k), device.with(&v));

    let store = Store { key_dim, value_dim, prefix, caches };
    let mut buffers = vec![&row_buffer, &tables, &k_buffer, &keys];
    if !prefix {
        buffers.extend([&v_buffer, &values]);
    }
    let kernel = compiled(&device, &store.source().unwrap());
    device.run(&kernel, &buffers, [store.groups(), count as u32, 1]);

    let values = if prefix { &keys } else { &values };
    let value = |row: usize, h: usize, d: usize| match prefix {
        true => k[(row * kv_heads + h) * key_dim + d],
        false => v[(row * kv_heads + h) * value_dim + d],
    };
    let mut expected = Vec::new();
    for (row, words) in words.iter().enumerate() {
        let position = words[1] as usize;
        let first = row - position;
        for h in 0..heads {
            let kv_head = h / (heads / kv_heads);
            let seen = mask.range(position, words[3] as usize, Place::of(words[1]).group);
            let weights: Vec<f64> = seen
                .clone()
                .map(|p| {
                    let query = &q[(row * heads + h) * key_dim..][..key_dim];
                    let key = &k[((first + p) * kv_heads + kv_head) * key_dim..][..key_dim];
                    let dot: f64 =
                        query.iter().zip(key).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                    let slope = alibi.map_or(0.0, |bias| alibi_slope(bias, h, heads));
                    (dot * f64::from(scale) - f64::from(slope) * p.abs_diff(position) as f64).exp()
                })
                .collect();
            let total: f64 = weights.iter().sum();
            for d in 0..value_dim {
                let sum: f64 = seen
                    .clone()
                    .zip(&weights)
                    .map(|(p, w)| w * f64::from(value(first + p, kv_head, d)))
                    .sum();
                expected.push(sum / total);
            }
        }
    }
    // keys, values, and on matrix cores queries and weights too, are rounded to f16
    let tolerance = if caches.kv == KvType::F16 { 4e-3 } else { 1e-5 };
    let compare = |what: &str, a: &wgpu::Buffer| {
        let got: Vec<f32> = device.content(a);
        for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
            let difference = (f64::from(*got) - expected).abs();
            assert!(difference < tolerance, "{what} {i}: {got} for {expected}, {attention:?}");
        }
    };
    let poison = vec![f32::NAN; count * heads * value_dim];
    let split = WorkSplit::of(16, 2, 32);
    for cores in [None, (caches.kv == KvType::F16).then_some(&split)] {
        let tiles = tiles(&rows, attention.tile_rows(cores.copied()));
        let groups = [attention.prompt_groups(cores.copied()), tiles.len() as u32, 1];
        let (tiles, a) = (device.with(&tiles), device.with(&poison));
        let Some(kernel) = prompt_kernel(&device, &attention, cores) else { continue };
        device.run(&kernel, &[&row_buffer, &tables, &tiles, &q_buffer, &keys, values, &a], groups);
        compare(&format!("prompt by {cores:?}"), &a);
    }
    if attention.never_decodes() {
        return;
    }
    let bound = lengths.iter().copied().max().unwrap();
    let merge = compiled(&device, &attention.merge_source().unwrap());
    let splits = attention.splits(bound).max(2);
    let a = device.with(&poison);
    let scratch = device.with(&vec![f32::NAN; attention.splits_len(count, splits)]);
    let source = attention.decode_source(&device.capabilities, splits, None).unwrap();
    let kernel = compiled(&device, &source);
    let buffers = [&row_buffer, &tables, &q_buffer, &keys, values, &a, &scratch];
    device.run(&kernel, &buffers, attention.decode_groups(count, splits));
    device.run(&merge, &[&row_buffer, &scratch, &a], attention.merge_groups(count));
    compare("decode", &a);
}

fn heads(heads: usize, kv_heads: usize, key_dim: usize, value_dim: usize) -> Attention {
    let caches = Caches { kv_heads, kv: KvType::F32, table: TABLE };
    Attention { value_dim, ..Attention::causal(heads, key_dim, caches) }
}

#[test]
fn keys_and_values_of_different_lengths() {
    for attention in
        [heads(6, 2, 24, 10), heads(3, 1, 6, 80), heads(4, 4, 192, 128), heads(4, 2, 33, 7)]
    {
        check(attention, &[70, 3]);
    }
}

/// The same on matrix cores, with lengths that are no multiples of 16.
#[test]
fn lengths_on_matrix_cores() {
    let halves = |attention: Attention| {
        let caches = Caches { kv: KvType::F16, ..attention.caches };
        Attention { caches, ..attention }
    };
    check(halves(heads(6, 2, 24, 12)), &[70, 3]);
    check(halves(heads(4, 4, 96, 40)), &[65]);
    check(halves(Attention { prefix: true, ..heads(8, 1, 36, 20) }), &[70, 20]);
    for window in [None, Some(0), Some(70)] {
        let mask = Mask::Symmetric { window };
        check(halves(Attention { mask, alibi: Some(8.0), ..heads(6, 2, 16, 16) }), &[1, 130]);
    }
}

/// Latent attention: many query heads over one KV head whose values are a prefix of the keys.
#[test]
fn values_that_are_a_prefix() {
    check(Attention { prefix: true, ..heads(8, 1, 36, 20) }, &[70, 200]);
    check(Attention { prefix: true, ..heads(128, 1, 576, 512) }, &[3]);
    check(Attention { prefix: true, ..heads(40, 1, 288, 256) }, &[66]);
}

#[test]
fn rows_that_see_later_ones() {
    for window in [None, Some(0), Some(10), Some(70), Some(300)] {
        let mask = Mask::Symmetric { window };
        check(Attention { mask, ..heads(6, 2, 24, 24) }, &[1, 130, 17, 64]);
        check(Attention { mask, alibi: Some(8.0), ..heads(3, 3, 32, 32) }, &[65]);
    }
}

/// Positions of a window, which rows see whatever their own positions are.
#[test]
fn rows_that_see_a_window() {
    for kv in [KvType::F32, KvType::F16] {
        for (heads, dim, len) in [(6, 64, 250), (2, 64, 70), (3, 32, 64)] {
            let mask = Mask::Window { positions: len };
            let attention = Attention { mask, ..self::heads(heads, heads, dim, dim) };
            let caches = Caches { kv, ..attention.caches };
            check(Attention { caches, ..attention }, &[len, len]);
        }
    }
}
