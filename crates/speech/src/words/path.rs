//! Dynamic time warping.

/// A path of least cost from the first to the last element of a matrix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// The rows of its elements, ascending.
    pub rows: Vec<usize>,
    /// The columns of its elements, ascending.
    pub columns: Vec<usize>,
}

/// The step that leads to an element.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Diagonal,
    Row,
    Column,
}

/// The path of least sum through a matrix of costs `[rows, columns]`, by diagonal steps and steps
/// of one row or one column. Among steps of equal cost the step of a column is taken, as by
/// OpenAI's code.
pub fn warp(costs: &[f32], columns: usize) -> Path {
    let rows = costs.len().checked_div(columns).unwrap_or(0);
    // sums of the row before, behind the border of infinite costs
    let mut above = vec![f32::INFINITY; columns + 1];
    above[0] = 0.0;
    let mut steps = Vec::with_capacity(rows * columns);
    for row in costs.chunks_exact(columns.max(1)) {
        let mut sums = vec![f32::INFINITY; columns + 1];
        for (column, cost) in row.iter().enumerate() {
            let (diagonal, up, left) = (above[column], above[column + 1], sums[column]);
            let (least, step) = if diagonal < up && diagonal < left {
                (diagonal, Step::Diagonal)
            } else if up < diagonal && up < left {
                (up, Step::Row)
            } else {
                (left, Step::Column)
            };
            sums[column + 1] = cost + least;
            steps.push(step);
        }
        above = sums;
    }
    back(&steps, rows, columns)
}

/// Follows the steps back from the last element.
fn back(steps: &[Step], rows: usize, columns: usize) -> Path {
    let mut path = Path::default();
    let (mut row, mut column) = (rows, columns);
    while row > 0 || column > 0 {
        // costs that are NaN can lead to the border, which counts as its neighbour
        path.rows.push(row.saturating_sub(1));
        path.columns.push(column.saturating_sub(1));
        let step = match (row, column) {
            (0, _) => Step::Column,
            (_, 0) => Step::Row,
            _ => steps[(row - 1) * columns + column - 1],
        };
        row -= usize::from(step != Step::Column);
        column -= usize::from(step != Step::Row);
    }
    path.rows.reverse();
    path.columns.reverse();
    path
}
