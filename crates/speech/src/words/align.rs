//! From the scores of attention to the times of words.

use crate::decode::Task;
use crate::language::Language;
use crate::recognizer::Alignment;
use crate::softmax::LogSumExp;
use crate::vocabulary::Vocabulary;

use super::median::median_filter;
use super::path::warp;
use super::split::split;
use super::timing::Timing;

/// Width of the median filter in positions.
const MEDIAN: usize = 7;
const POSITIONS_PER_SECOND: f64 = 50.0;

/// Tokens that are run over a window to align a text, and the index of the first text token.
pub(crate) fn alignment_tokens(
    vocabulary: &Vocabulary,
    language: Language,
    task: Task,
    text: &[u32],
) -> (Vec<u32>, usize) {
    let mut tokens = crate::decode::start(vocabulary, language, task);
    tokens.push(vocabulary.no_timestamps);
    let first = tokens.len();
    tokens.extend(text);
    tokens.push(vocabulary.eot);
    (tokens, first)
}

/// The words of `text` with their times. `first` is the index of the first text token among those
/// of the alignment, and `positions` the number of positions with audio.
pub(crate) fn timings(
    vocabulary: &Vocabulary,
    language: Language,
    alignment: &Alignment,
    text: &[u32],
    first: usize,
    positions: usize,
) -> Vec<Timing> {
    let mut tokens = text.to_vec();
    tokens.push(vocabulary.eot);
    let mut pieces = split(vocabulary, language, &tokens);
    // the last one is the end
    pieces.pop();
    if pieces.is_empty() {
        return Vec::new();
    }
    let matrix = matrix(alignment, positions.min(alignment.positions));
    let columns = positions.min(alignment.positions);
    // the row before a token attends to its audio
    let rows = first - 1..(first + text.len()).min(alignment.tokens);
    let costs: Vec<f32> =
        matrix[rows.start * columns..rows.end * columns].iter().map(|value| -value).collect();
    let path = warp(&costs, columns);
    let mut jumps = Vec::with_capacity(rows.len());
    for (i, (&row, &column)) in path.rows.iter().zip(&path.columns).enumerate() {
        if i == 0 || path.rows[i - 1] != row {
            jumps.push(column as f64 / POSITIONS_PER_SECOND);
        }
    }
    let time = |token: usize| jumps.get(token).or(jumps.last()).copied().unwrap_or(0.0);
    let probabilities = probabilities(vocabulary, alignment, text, first);
    let mut at = 0;
    let mut timings = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let end = at + piece.tokens.len();
        let own = &probabilities[at.min(text.len())..end.min(text.len())];
        timings.push(Timing {
            text: piece.text,
            tokens: piece.tokens.len(),
            start: time(at),
            end: time(end),
            // a failing model's NaN becomes 0
            probability: (own.iter().sum::<f64>() / own.len().max(1) as f64)
                .clamp(0.0, 1.0)
                .max(0.0),
        });
        at = end;
    }
    timings
}

/// The mean over heads of filtered, standardized attention weights `[tokens, positions]`.
fn matrix(alignment: &Alignment, positions: usize) -> Vec<f32> {
    let (heads, tokens) = (alignment.heads, alignment.tokens);
    let mut mean = vec![0.0f32; tokens * positions];
    if positions == 0 {
        return mean;
    }
    for head in alignment.scores.chunks_exact((tokens * alignment.positions).max(1)) {
        let mut weights: Vec<f32> = Vec::with_capacity(tokens * positions);
        for row in head.chunks_exact(alignment.positions) {
            weights.extend(softmax(&row[..positions]));
        }
        standardize(&mut weights, tokens, positions);
        for (sum, row) in mean.chunks_exact_mut(positions).zip(weights.chunks_exact_mut(positions))
        {
            median_filter(row, MEDIAN);
            for (sum, value) in sum.iter_mut().zip(row) {
                *sum += *value;
            }
        }
    }
    mean.iter_mut().for_each(|sum| *sum /= heads as f32);
    mean
}

/// The softmax of a row.
fn softmax(row: &[f32]) -> impl Iterator<Item = f32> {
    let greatest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers: Vec<f32> = row.iter().map(|score| (score - greatest).exp()).collect();
    let sum: f64 = powers.iter().map(|&power| f64::from(power)).sum();
    powers.into_iter().map(move |power| (f64::from(power) / sum) as f32)
}

/// Subtracts the mean over tokens and divides by the deviation of the population, position by
/// position.
fn standardize(weights: &mut [f32], tokens: usize, positions: usize) {
    for position in 0..positions {
        let column = || (0..tokens).map(|token| token * positions + position);
        let mean = column().map(|i| f64::from(weights[i])).sum::<f64>() / tokens as f64;
        let squares: f64 = column().map(|i| (f64::from(weights[i]) - mean).powi(2)).sum();
        let deviation = (squares / tokens as f64).sqrt() as f32;
        for i in column() {
            weights[i] = (weights[i] - mean as f32) / deviation;
        }
    }
}

/// The probabilities of the text's tokens among texts.
fn probabilities(
    vocabulary: &Vocabulary,
    alignment: &Alignment,
    text: &[u32],
    first: usize,
) -> Vec<f64> {
    let width = alignment.logits.len() / alignment.tokens.max(1);
    let rows = alignment.logits.chunks_exact(width.max(1)).skip(first - 1);
    let of = |(row, &token): (&[f32], &u32)| {
        let row = &row[..(vocabulary.eot as usize).min(row.len())];
        let sum = LogSumExp::of(row);
        let logit = row.get(token as usize).copied().unwrap_or(f32::NEG_INFINITY);
        sum.log_prob(logit).exp()
    };
    let mut probabilities: Vec<f64> = rows.zip(text).map(of).collect();
    probabilities.resize(text.len(), 0.0);
    probabilities
}
