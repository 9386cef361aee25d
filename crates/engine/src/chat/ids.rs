//! Identifiers of tool calls.

/// The identifier of a tool call: nine ASCII letters and digits, the form that the templates of
/// Mistral demand. Different numbers below 62⁹ give different identifiers.
///
/// ```
/// assert_eq!(pelton::chat::call_id(0), "000000000");
/// assert_eq!(pelton::chat::call_id(61), "00000000z");
/// ```
pub fn call_id(number: u64) -> String {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let digit = |place: u32| char::from(DIGITS[(number / 62u64.pow(place) % 62) as usize]);
    (0..9).rev().map(digit).collect()
}
