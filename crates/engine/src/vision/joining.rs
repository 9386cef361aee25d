//! The texts and rows of a picture in a prompt, by the family of the tower.

use pelton_graph::TowerFamily;
use pelton_image::Plan;

/// The texts and rows of a picture in a prompt.
#[derive(Debug)]
pub(super) struct Joining {
    /// The text that a chat template writes for a picture.
    pub(super) placeholder: &'static str,
    /// The control token where rows of a picture are put.
    pub(super) mark: &'static str,
    /// Whether the rows come after that token. Otherwise they replace it.
    pub(super) is_kept: bool,
    sequence: Sequence,
}

/// The texts around the rows of a picture.
#[derive(Debug)]
enum Sequence {
    /// One run of rows between two texts.
    One([&'static str; 2]),
    /// The picture, and crops of it in words (Gemma 3).
    Crops([&'static str; 2]),
    /// A run for each row of a picture, with a break after each and an end after the last.
    Lines {
        /// The text after each row but the last.
        after: &'static str,
        /// The text after the last row.
        end: &'static str,
    },
    /// A run for each tile, and one for the whole picture (Idefics3).
    Tiles,
}

/// The text of a picture, and the rows of each of its marks.
pub(super) struct Written {
    pub(super) text: String,
    pub(super) runs: Vec<usize>,
}

impl Joining {
    /// The row of a family.
    pub(super) fn of(family: TowerFamily) -> Self {
        let one = |mark, sequence| Self { placeholder: mark, mark, is_kept: false, sequence };
        match family {
            TowerFamily::Gemma3 => {
                let texts = ["\n\n<start_of_image>", "<end_of_image>\n\n"];
                let mark = "<start_of_image>";
                let sequence = Sequence::Crops(texts);
                Self { placeholder: mark, mark, is_kept: true, sequence }
            }
            TowerFamily::Gemma4 => {
                one("<|image|>", Sequence::One(["<|image><|image|>", "<image|>"]))
            }
            TowerFamily::Idefics3 => one("<image>", Sequence::Tiles),
            TowerFamily::InternVl => {
                one("<IMG_CONTEXT>", Sequence::One(["<img><IMG_CONTEXT>", "</img>"]))
            }
            TowerFamily::Pixtral => {
                one("[IMG]", Sequence::Lines { after: "[IMG_BREAK]", end: "[IMG_END]" })
            }
            TowerFamily::Qwen2Vl | TowerFamily::Qwen25Vl | TowerFamily::Qwen3Vl => {
                one("<|image_pad|>", Sequence::One(["<|image_pad|>", ""]))
            }
        }
    }

    /// The text of a picture.
    pub(super) fn write(&self, plan: &Plan) -> Written {
        let grids = plan.grids();
        let tokens = |i: usize| grids.get(i).map_or(0, pelton_image::Grid::tokens);
        let (mut text, mut runs) = (String::new(), Vec::new());
        match self.sequence {
            Sequence::One([before, after]) => {
                text = [before, after].concat();
                runs.push(plan.tokens());
            }
            Sequence::Crops([before, after]) => {
                let whole = [before, after].concat();
                let crops = grids.len().saturating_sub(1);
                text = match crops {
                    0 => whole,
                    _ => format!(
                        "Here is the original image {whole} and here are some crops to help you see better {}",
                        vec![whole.as_str(); crops].join(" ")
                    ),
                };
                runs.extend((0..=crops).map(tokens));
            }
            Sequence::Lines { after, end } => {
                for grid in &grids {
                    let [rows, columns] = [grid.rows / grid.merge, grid.columns / grid.merge];
                    for row in 1..=rows {
                        text.push_str(self.mark);
                        text.push_str(if row == rows { end } else { after });
                        runs.push(columns as usize);
                    }
                }
            }
            Sequence::Tiles => {
                const AROUND: &str = "<fake_token_around_image>";
                let (rows, columns) = plan.tiles;
                for row in 1..=rows {
                    for column in 1..=columns {
                        text += &format!("{AROUND}<row_{row}_col_{column}>{}", self.mark);
                        runs.push(tokens(runs.len()));
                    }
                    text.push('\n');
                }
                if rows > 0 {
                    text.push('\n');
                }
                text += &format!("{AROUND}<global-img>{}{AROUND}", self.mark);
                runs.push(tokens(runs.len()));
            }
        }
        Written { text, runs }
    }
}
