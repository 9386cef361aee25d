//! The logits of a model that reads a prompt, and then tokens one by one.

use pelton::Model;

/// The bits of the logits of `ids`, the first `prompt` of which are a prompt, at an effort.
pub(crate) fn logits(model: &Model, ids: &[u32], prompt: usize, effort: f64) -> Vec<u32> {
    let ids = ids.to_vec();
    let all = model.session(ids.len(), move |session| {
        session.set_effort(effort)?;
        let mut all = Vec::new();
        session.run_all(&ids[..prompt], |row| all.extend(row.iter().map(|x| x.to_bits())))?;
        for id in &ids[prompt..] {
            all.extend(session.run(&[*id])?.iter().map(|x| x.to_bits()));
        }
        Ok(all)
    });
    all.unwrap()
}
