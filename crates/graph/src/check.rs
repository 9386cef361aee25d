//! The check of a pass against a plan, its limits and the page tables: executables trust every
//! index of a pass that it accepts.

use pelton_sampling::{LOG_PROBS_MAX, PENALTY_WINDOW_MAX};

use crate::{
    Error, Hidden, Input, Limits, MAX_REPEAT, OutputKind, PAGE, PageTables, Pass, Phase, Plan,
    RECENT, Row, Sample, Want,
};

fn refuse(what: String) -> Result<(), Error> {
    Err(Error::Pass(what))
}

impl Pass<'_> {
    /// Checks every index of the pass: tokens, positions, slots, pages, wants and draws. In
    /// `tables` the edits of [`Self::tables`] have been applied.
    ///
    /// # Errors
    ///
    /// [`Error::Pass`] naming the first value that is out of its range, and the range.
    pub fn check(&self, plan: &Plan, limits: &Limits, tables: &PageTables) -> Result<(), Error> {
        if self.rows.is_empty() || self.rows.len() > limits.rows {
            return refuse(format!("{} rows, expected 1 to {}", self.rows.len(), limits.rows));
        }
        if self.repeat == 0 || self.repeat > MAX_REPEAT {
            return refuse(format!("repeat {}, expected 1 to {MAX_REPEAT}", self.repeat));
        }
        if self.phase == Phase::Encode {
            self.check_windows(plan)?;
        }
        for (i, row) in self.rows.iter().enumerate() {
            self.check_row(i, row, plan, limits, tables)?;
        }
        if !self.efforts.is_empty() && self.efforts.len() != self.rows.len() {
            return refuse(format!(
                "{} efforts, expected one of each of the {} rows or none",
                self.efforts.len(),
                self.rows.len()
            ));
        }
        if !plan.has_effort()
            && let Some(effort) = self.efforts.iter().find(|effort| !effort.is_full())
        {
            return refuse(format!(
                "effort {effort}, expected 1: the model was not loaded for less"
            ));
        }
        self.check_hidden(plan)?;
        self.check_places()?;
        self.check_embeddings(plan)?;
        if self.wants.len() > limits.wants {
            return refuse(format!(
                "{} wants, expected at most {}",
                self.wants.len(),
                limits.wants
            ));
        }
        if !self.wants.is_sorted_by_key(Want::row) {
            return refuse("wants are not in the order of their rows".to_owned());
        }
        for of_row in self.wants.chunk_by(|a, b| a.row() == b.row()) {
            let same = |a: &Want<'_>, b| std::mem::discriminant(a) == std::mem::discriminant(b);
            let is_repeated = |(i, want)| of_row[..i].iter().any(|before| same(before, want));
            if of_row.iter().enumerate().any(is_repeated) {
                let row = of_row[0].row();
                return refuse(format!("a result of row {row} twice, expected each once"));
            }
        }
        for (i, want) in self.wants.iter().enumerate() {
            let Some(row) = self.rows.get(want.row() as usize) else {
                let rows = self.rows.len();
                return refuse(format!("row {} of want {i}, expected one of {rows}", want.row()));
            };
            match want {
                _ if !plan.has_results() => {
                    return refuse(format!("want {i}, expected none of this part of a model"));
                }
                Want::Logits { row: _ } => {}
                Want::Sample(_) | Want::Later { .. } if plan.output != OutputKind::Logits => {
                    return refuse(format!(
                        "want {i} is a sample, expected outputs only: the model has no logits"
                    ));
                }
                Want::Sample(sample) => {
                    check_draw(i, sample, plan, limits)?;
                    self.check_history(i, sample, row, plan)?;
                }
                Want::Later { .. }
                    if [self.rows.len(), self.wants.len(), self.drafted()] != [1, 1, 0] =>
                {
                    return refuse(format!(
                        "want {i} is drawn later, expected it alone in a pass of one row, which is \
                         not drafted"
                    ));
                }
                Want::Later { .. } => {}
            }
        }
        if plan.whole_sequences {
            self.check_whole_sequences()?;
        }
        if self.repeat > 1 { self.check_repeat() } else { Ok(()) }
    }

    /// Checks the rows of another pass whose hidden states the pass begins with. The pass before
    /// had `before` rows, and the newest of the partner `partner`, or as many groups of rows as its
    /// rows make; `None` without a partner.
    ///
    /// # Errors
    ///
    /// [`Error::Pass`] naming the first row that the other pass does not have, or if a partner is
    /// missing.
    pub fn check_other(&self, before: usize, partner: Option<usize>) -> Result<(), Error> {
        let reads = self.drafted() > 0 || matches!(self.hidden, Hidden::Partner(_));
        if reads && partner.is_none() {
            return refuse("values of a partner, expected none: there is no partner".to_owned());
        }
        let (rows, count) = match self.hidden {
            Hidden::Given(_) => return Ok(()),
            Hidden::Before(rows) => (rows, before),
            Hidden::Partner(rows) => (rows, partner.unwrap_or(0)),
        };
        match rows.iter().find(|&&row| row as usize >= count) {
            Some(row) => refuse(format!("hidden state of row {row}, expected one of {count}")),
            None => Ok(()),
        }
    }

    fn check_hidden(&self, plan: &Plan) -> Result<(), Error> {
        let (given, kept) = (plan.given(self.phase), plan.kept(self.phase));
        let (rows, width) = (self.rows.len(), plan.width_of(given));
        let (found, expected, what) = match self.hidden {
            Hidden::Given(values) => (values.len(), rows.saturating_mul(width), "elements"),
            Hidden::Before(of) | Hidden::Partner(of) => (of.len(), rows, "rows"),
        };
        if found != expected {
            return refuse(format!(
                "{found} {what} of hidden states, expected {expected} for {rows} rows"
            ));
        }
        if matches!(self.hidden, Hidden::Before(_)) && (given.is_empty() || given != kept) {
            return refuse("hidden states of the pass before, expected a head".to_owned());
        }
        if matches!(self.hidden, Hidden::Partner(_)) && given.is_empty() {
            return refuse(
                "hidden states of a partner, expected a plan that begins with some".to_owned(),
            );
        }
        if self.repeat > 1 && !given.is_empty() && given != kept {
            return refuse("repeat above 1, expected a single one of a part of a model".to_owned());
        }
        if self.keeps_hidden && (kept.is_empty() || self.repeat > 1) {
            return refuse(
                "hidden states are to be kept, expected a plan that has any and a single repeat"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// Places of all rows or none, whose groups are whole in the pass.
    fn check_places(&self) -> Result<(), Error> {
        if self.places.is_empty() {
            return Ok(());
        }
        if self.places.len() != self.rows.len() {
            return refuse(format!(
                "{} places of {} rows, expected one of each or none",
                self.places.len(),
                self.rows.len()
            ));
        }
        for (i, (row, place)) in self.rows.iter().zip(self.places).enumerate() {
            let [first, end] = place.group;
            // the index of the group's first row
            let begin = i.checked_sub((row.position.wrapping_sub(first)) as usize);
            let in_order = |begin: usize| {
                let rows = self.rows.get(begin..begin + (end - first) as usize)?;
                let places = &self.places[begin..begin + rows.len()];
                let same = (first..).zip(rows).zip(places).all(|((position, of), its)| {
                    (of.slot, of.position) == (row.slot, position) && its.group == place.group
                });
                same.then_some(())
            };
            let is_whole = (first..end).contains(&row.position)
                && (first + 1 == end || begin.and_then(in_order).is_some());
            if !is_whole {
                return refuse(format!(
                    "row {i} at position {} in the group {first}..{end}, expected a group whose \
                     rows are all in the pass",
                    row.position
                ));
            }
            let last = place.at.into_iter().max().unwrap_or(0);
            if last.checked_add(self.repeat).is_none() {
                return refuse(format!("coordinate {last} of row {i}, expected less"));
            }
        }
        Ok(())
    }

    /// Embeddings of the rows without a token.
    fn check_embeddings(&self, plan: &Plan) -> Result<(), Error> {
        let width = plan.injected_width();
        let count = self.embeddings.len().checked_div(width).unwrap_or(0);
        if count > self.rows.len() || self.embeddings.len() != count.saturating_mul(width) {
            return refuse(format!(
                "{} elements of embeddings, expected {width} of each of at most {} rows",
                self.embeddings.len(),
                self.rows.len()
            ));
        }
        let missing = |row: &&Row| matches!(row.input, Input::Embedding(i) if i as usize >= count);
        if let Some(row) = self.rows.iter().find(missing) {
            return refuse(format!("{:?} of a row, expected one of {count}", row.input));
        }
        let decodes = !matches!(self.phase, Phase::Prompt | Phase::Mixed { .. });
        if count > 0 && (decodes || self.repeat > 1) {
            return refuse("embeddings, expected a single pass over a prompt".to_owned());
        }
        Ok(())
    }

    /// Rows of an encoder: whole windows of features, of which nothing is wanted.
    fn check_windows(&self, plan: &Plan) -> Result<(), Error> {
        let Some(encoder) = plan.encoder else {
            return refuse(
                "rows of an encoder, expected rows of tokens: the plan has none".to_owned(),
            );
        };
        for rows in self.rows.chunk_by(|a, b| a.slot == b.slot) {
            if rows.len() != encoder.positions {
                return refuse(format!(
                    "{} rows of slot {}, expected the {} positions of a window",
                    rows.len(),
                    rows[0].slot,
                    encoder.positions
                ));
            }
        }
        if !self.wants.is_empty() || self.repeat > 1 {
            return refuse("rows of an encoder, expected no wants and a single repeat".to_owned());
        }
        self.check_sequences()
    }

    /// Each slot's rows lie side by side and begin at position 0.
    fn check_sequences(&self) -> Result<(), Error> {
        let mut before = 0;
        for rows in self.rows.chunk_by(|a, b| a.slot == b.slot) {
            let in_order = (0..).zip(rows).all(|(position, row)| row.position == position);
            if !in_order || self.rows[..before].iter().any(|row| row.slot == rows[0].slot) {
                return refuse(format!(
                    "rows of slot {}, expected one whole sequence from position 0",
                    rows[0].slot
                ));
            }
            before += rows.len();
        }
        Ok(())
    }

    /// Rows that see later ones: whole sequences, in a pass of prompts.
    fn check_whole_sequences(&self) -> Result<(), Error> {
        self.check_sequences()?;
        match (self.phase, self.repeat) {
            (Phase::Prompt, 1) => Ok(()),
            _ => refuse("whole sequences, expected the phase of prompts once".to_owned()),
        }
    }

    fn check_row(
        &self,
        i: usize,
        &Row { input, position, slot }: &Row,
        plan: &Plan,
        limits: &Limits,
        tables: &PageTables,
    ) -> Result<(), Error> {
        if let Input::Token(token) = input
            && token as usize >= plan.input_tokens()
        {
            let vocab = plan.input_tokens();
            return refuse(format!(
                "token {token} of row {i} is not below the vocabulary's {vocab}"
            ));
        }
        // rows of a vision tower are patches
        let has_features = self.phase == Phase::Encode || plan.vocab == 0;
        if (input == Input::Features) != has_features {
            return refuse(format!(
                "row {i} is {input:?} in the phase {:?}, expected features where an encoder or a tower runs",
                self.phase
            ));
        }
        // the position of the row in the last repeat
        let last = u64::from(position) + u64::from(self.repeat) - 1;
        let context = match self.phase {
            Phase::Encode => plan.encoded_positions(),
            Phase::Prompt | Phase::Decode | Phase::Mixed { .. } => limits.context,
        };
        if last >= context as u64 {
            return refuse(format!(
                "position {last} of row {i} is not below the context's {context}"
            ));
        }
        if slot as usize >= limits.sequences {
            let slots = limits.sequences;
            return refuse(format!("slot {slot} of row {i}, expected one of {slots}"));
        }
        for group in 0..plan.groups.len() {
            let last = match (plan.encoder, self.phase) {
                (None, _) => last,
                // an encoder stores in its own caches and in those that tokens attend to
                (Some(encoder), Phase::Encode) if group == encoder.own => last,
                (Some(encoder), Phase::Encode) if group == encoder.cross => last,
                (Some(encoder), _) if group == encoder.own => continue,
                (Some(_), Phase::Encode) => continue,
                (Some(encoder), _) if group == encoder.cross => encoder.positions as u64 - 1,
                (Some(_), _) => last,
            };
            let pages = tables.table(group, slot as usize).len();
            if last as usize / PAGE >= pages {
                return refuse(format!(
                    "position {last} of row {i} is past the {pages} pages of its slot in cache \
                     group {group}"
                ));
            }
        }
        Ok(())
    }

    /// Checks the history of a draw, which the repeats prolong.
    fn check_history(
        &self,
        i: usize,
        sample: &Sample<'_>,
        row: &Row,
        plan: &Plan,
    ) -> Result<(), Error> {
        let &Sample { row: _, draw, recent, pending } = sample;
        let window = draw.penalties.map_or(0, |penalties| penalties.window as usize);
        if window > PENALTY_WINDOW_MAX {
            return refuse(format!(
                "want {i} has a penalty window of {window} tokens, expected at most \
                 {PENALTY_WINDOW_MAX}"
            ));
        }
        if recent.len() > window {
            return refuse(format!(
                "want {i} has {} recent tokens, expected at most its penalty window of {window}",
                recent.len()
            ));
        }
        if let Some(id) = recent.iter().find(|&&id| id as usize >= plan.vocab) {
            return refuse(format!(
                "recent token {id} of want {i} is not below the vocabulary's {}",
                plan.vocab
            ));
        }
        let known = u64::from(row.position) + 1;
        if u64::from(pending) > known {
            return refuse(format!(
                "want {i} has {pending} pending tokens, expected at most the {known} up to its \
                 row's position"
            ));
        }
        let last = u64::from(pending) + u64::from(self.repeat) - 1;
        if last > RECENT as u64 {
            return refuse(format!(
                "want {i} has {last} pending tokens in repeat {}, expected at most {RECENT}",
                self.repeat
            ));
        }
        Ok(())
    }

    fn check_repeat(&self) -> Result<(), Error> {
        let unmasked = |want: &Want<'_>| matches!(want, Want::Sample(s) if s.draw.mask.is_none());
        let each = (0..).zip(self.wants).all(|(i, want)| want.row() == i && unmasked(want));
        let mut slots: Vec<u32> = self.rows.iter().map(|row| row.slot).collect();
        slots.sort_unstable();
        slots.dedup();
        if self.wants.len() != self.rows.len() || slots.len() != self.rows.len() || !each {
            return refuse(
                "repeat above 1, expected rows of different slots with one sample without a mask \
                 for each"
                    .to_owned(),
            );
        }
        Ok(())
    }
}

fn check_draw(i: usize, sample: &Sample<'_>, plan: &Plan, limits: &Limits) -> Result<(), Error> {
    let draw = &sample.draw;
    if let Some(top) = draw.log_probs
        && usize::from(top) > LOG_PROBS_MAX
    {
        return refuse(format!(
            "{top} log-probabilities of want {i}, expected at most {LOG_PROBS_MAX}"
        ));
    }
    if let Some(mask) = draw.mask
        && mask.len() != plan.vocab.div_ceil(32)
    {
        return refuse(format!(
            "the mask of want {i} has {} words, expected {}",
            mask.len(),
            plan.vocab.div_ceil(32)
        ));
    }
    if draw.bias.len() > limits.bias {
        return refuse(format!(
            "want {i} has {} biases, expected at most {}",
            draw.bias.len(),
            limits.bias
        ));
    }
    if let Some((id, _)) = draw.bias.iter().find(|(id, _)| *id as usize >= plan.vocab) {
        return refuse(format!(
            "token {id} of a bias of want {i} is not below the vocabulary's {}",
            plan.vocab
        ));
    }
    Ok(())
}
