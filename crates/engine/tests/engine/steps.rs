//! The logits of a model that reads a prompt, and then tokens one by one.

use pelton::Session;

/// The bits of the logits of a text of `ids`, the first `prompt` of which are a prompt, at a level.
pub(crate) fn logits(session: &mut Session, ids: &[u32], prompt: usize, level: f64) -> Vec<u32> {
    session.truncate(0);
    session.set_effort(level).unwrap();
    let mut all = Vec::new();
    let bits = |row: &[f32]| all.extend(row.iter().map(|x| x.to_bits()));
    session.run_all(&ids[..prompt], bits).unwrap();
    for id in &ids[prompt..] {
        all.extend(session.run(&[*id]).unwrap().iter().map(|x| x.to_bits()));
    }
    all
}
