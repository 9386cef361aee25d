//! The distribution of divergences as a picture.

use std::fmt::Write;

use crate::scores::statistics::{BaseSummary, percentile};

/// The picture and the area of the curve in it, in pixels.
const SIZE: [f64; 2] = [720.0, 420.0];
const LEFT: f64 = 70.0;
const TOP: f64 = 50.0;
const AREA: [f64; 2] = [620.0, 310.0];
/// Divergences below it are drawn at it: they are rounding.
const LEAST: f64 = 1e-9;
/// Points of the curve for each percent of the tokens.
const DENSITY: usize = 4;

/// An SVG picture: the divergence at each percentile of the tokens, on a logarithmic axis.
pub(super) fn distribution(title: &str, ascending: &[f64], base: &BaseSummary) -> String {
    let most = ascending.last().copied().unwrap_or_default().max(10.0 * LEAST);
    let least = percentile(ascending, 0.01).max(LEAST);
    let (top, bottom) = (most.log10().ceil(), least.log10().floor().min(most.log10().ceil() - 1.0));
    let x = |percent: f64| LEFT + AREA[0] * percent / 100.0;
    let y = |value: f64| {
        let share = (value.max(LEAST).log10() - bottom) / (top - bottom);
        TOP + AREA[1] * (1.0 - share.clamp(0.0, 1.0))
    };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"14\">{}</text>\n",
        SIZE[0],
        SIZE[1],
        escaped(title)
    );
    let mut line = |from: [f64; 2], to: [f64; 2], style: &str| {
        let _ = writeln!(
            svg,
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" {style}/>",
            from[0], from[1], to[0], to[1]
        );
    };
    let [right, low] = [LEFT + AREA[0], TOP + AREA[1]];
    let decades: Vec<i32> = (bottom as i32..=top as i32).collect();
    for &decade in &decades {
        let y = y(10f64.powi(decade));
        line([LEFT, y], [right, y], "stroke=\"#ddd\"");
    }
    for percent in [0.0, 25.0, 50.0, 75.0, 90.0, 99.0, 100.0] {
        line([x(percent), TOP], [x(percent), low], "stroke=\"#ddd\"");
    }
    let mean = y(base.divergence.value);
    line([LEFT, mean], [right, mean], "stroke=\"#c33\" stroke-dasharray=\"5 4\"");
    let mut text = |at: [f64; 2], anchor: &str, words: &str| {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{words}</text>",
            at[0], at[1]
        );
    };
    for &decade in &decades {
        text([LEFT - 6.0, y(10f64.powi(decade)) + 4.0], "end", &format!("1e{decade}"));
    }
    for percent in [0.0, 25.0, 50.0, 75.0, 90.0, 99.0] {
        text([x(percent), low + 16.0], "middle", &format!("{percent}"));
    }
    text([LEFT + AREA[0] / 2.0, low + 36.0], "middle", "percentile of the tokens");
    text([LEFT + 6.0, mean - 5.0], "start", &format!("mean {:.6} nats", base.divergence.value));
    text([LEFT - 6.0, TOP - 10.0], "end", "nats");
    let points: Vec<String> = (0..=100 * DENSITY)
        .map(|i| i as f64 / DENSITY as f64)
        .map(|percent| {
            format!("{:.1},{:.1}", x(percent), y(percentile(ascending, percent / 100.0)))
        })
        .collect();
    let _ = writeln!(
        svg,
        "<polyline fill=\"none\" stroke=\"#247\" stroke-width=\"2\" points=\"{}\"/>\n</svg>",
        points.join(" ")
    );
    svg
}

/// A text in XML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
