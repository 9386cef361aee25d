//! The scores of one row of logits.

/// The span of logits below the greatest one that saved log-probabilities keep.
const SPAN: f32 = 16.0;

/// Log-probabilities `[vocabulary]` in 16 bits: `scale · code + least`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LogProbs {
    pub(crate) scale: f32,
    pub(crate) least: f32,
    pub(crate) codes: Vec<u16>,
}

impl LogProbs {
    /// Rounds the log-probabilities of logits, as llama.cpp does.
    pub(crate) fn of(logits: &[f32]) -> Self {
        let greatest = greatest(logits).1;
        let least = logits.iter().copied().fold(greatest, f32::min).max(greatest - SPAN);
        let log_sum = log_sum_exp(logits, greatest);
        let scale = (greatest - least) / f32::from(u16::MAX);
        let code = |&logit: &f32| match scale > 0.0 && logit > least {
            // at most 65535, up to rounding, which the conversion cuts off
            true => ((logit - least) * (1.0 / scale)).round_ties_even() as u16,
            false => 0,
        };
        let least_log_prob = (f64::from(least) - log_sum) as f32;
        Self { scale, least: least_log_prob, codes: logits.iter().map(code).collect() }
    }

    /// The log-probability of a token.
    fn get(&self, token: usize) -> f64 {
        f64::from(self.scale * f32::from(self.codes[token]) + self.least)
    }
}

/// The scores of one row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Score {
    /// Minus the log-probability of the next token.
    pub(crate) nats: f64,
    /// The scores against saved logits, if there are any.
    pub(crate) base: Option<BaseScore>,
}

/// The scores of one row against the saved logits of another model, the base.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct BaseScore {
    /// Minus the base's log-probability of the next token.
    pub(crate) nats: f64,
    /// The Kullback-Leibler divergence of the row from the base.
    pub(crate) divergence: f64,
    /// Whether the likeliest token is the same.
    pub(crate) same_top: bool,
}

/// Scores logits `[vocabulary]` by the token that comes next; `None` if they are not numbers.
pub(crate) fn score(logits: &[f32], next: u32, base: Option<&LogProbs>) -> Option<Score> {
    let (top, greatest) = greatest(logits);
    let log_sum = log_sum_exp(logits, greatest);
    let nats = log_sum - f64::from(*logits.get(next as usize)?);
    if !nats.is_finite() {
        return None;
    }
    let base = base.map(|base| {
        let (mut divergence, mut base_top) = (0.0, (0, f64::NEG_INFINITY));
        for (token, &logit) in logits.iter().enumerate() {
            let log_prob = base.get(token);
            if log_prob > base_top.1 {
                base_top = (token, log_prob);
            }
            // llama.cpp leaves out what is less probable, of which the codes know too little
            if log_prob > -f64::from(SPAN) {
                divergence += log_prob.exp() * (log_prob - f64::from(logit) + log_sum);
            }
        }
        BaseScore { nats: -base.get(next as usize), divergence, same_top: top == base_top.0 }
    });
    Some(Score { nats, base })
}

/// Scores logits `[vocabulary]` against those of another model for the same row, exactly; `None` if
/// they are not numbers.
pub(crate) fn score_pair(base: &[f32], logits: &[f32], next: u32) -> Option<Score> {
    let of_base = score(base, next, None)?;
    let score = score(logits, next, None)?;
    let [(base_top, base_most), (top, most)] = [greatest(base), greatest(logits)];
    let [base_sum, sum] = [log_sum_exp(base, base_most), log_sum_exp(logits, most)];
    let divergence = base.iter().zip(logits).map(|(&base, &logit)| {
        let (base, logit) = (f64::from(base), f64::from(logit));
        let probability = (base - base_sum).exp();
        // where a logit of minus infinity has no probability, the term is 0
        if probability > 0.0 { probability * (base - logit + (sum - base_sum)) } else { 0.0 }
    });
    let divergence = divergence.sum();
    let base = BaseScore { nats: of_base.nats, divergence, same_top: top == base_top };
    Some(Score { base: Some(base), ..score })
}

/// The index and the value of the greatest logit, the lowest index of equal ones.
fn greatest(logits: &[f32]) -> (usize, f32) {
    logits.iter().enumerate().fold((0, f32::NEG_INFINITY), |best, (i, &logit)| {
        if logit > best.1 { (i, logit) } else { best }
    })
}

fn log_sum_exp(logits: &[f32], greatest: f32) -> f64 {
    let sum: f64 = logits.iter().map(|&logit| f64::from((logit - greatest).exp())).sum();
    f64::from(greatest) + sum.ln()
}
