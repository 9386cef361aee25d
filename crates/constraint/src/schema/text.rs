//! Numbers in the text of a schema that a 64-bit number cannot hold.

use crate::Error;

use super::decimal::Decimal;

/// Keywords whose value is a number.
const KEYWORDS: [&str; 11] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
];
/// Keywords whose value may hold numbers.
const CONSTANTS: [&str; 2] = ["const", "enum"];

/// Refuses a JSON text in which a bound or a constant of a schema would be rounded. Text that is no
/// JSON may pass.
pub(crate) fn check_numbers(json: &str) -> Result<(), Error> {
    let bytes = json.as_bytes();
    // for each level whether it is within a constant
    let mut levels = vec![false];
    // whether the next value is a number of a schema, or a constant
    let (mut is_bound, mut is_constant) = (false, false);
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let begun = at;
        at += 1;
        match byte {
            b'"' => {
                while let Some(&inner) = bytes.get(at) {
                    at += if inner == b'\\' { 2 } else { 1 };
                    if inner == b'"' {
                        break;
                    }
                }
                let rest = json.get(at..).unwrap_or_default();
                if rest.trim_start().starts_with(':') {
                    let name = json.get(begun + 1..at.saturating_sub(1)).unwrap_or_default();
                    is_bound = KEYWORDS.contains(&name);
                    is_constant = CONSTANTS.contains(&name);
                }
            }
            b'{' | b'[' => {
                let outer = levels.last().copied().unwrap_or_default();
                levels.push(outer || is_constant);
                (is_bound, is_constant) = (false, false);
            }
            b'}' | b']' => {
                levels.pop();
                (is_bound, is_constant) = (false, false);
            }
            b',' => (is_bound, is_constant) = (false, false),
            b'-' | b'0'..=b'9' => {
                let is_part = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
                at += bytes[at..].iter().take_while(|byte| is_part(byte)).count();
                let is_within = levels.last().copied().unwrap_or_default();
                let number = &json[begun..at];
                if (is_bound || is_constant || is_within) && !is_held(number) {
                    let shown: String = number.chars().take(60).collect();
                    return Err(Error::Schema(format!(
                        "the number {shown} has more digits than a number of 64 bits, expected one of \
                         fewer digits"
                    )));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether parsed JSON has the same number.
fn is_held(number: &str) -> bool {
    if number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok() {
        return true;
    }
    let Ok(float) = number.parse::<f64>() else { return true };
    match (Decimal::parse(number), Decimal::parse(&format!("{float:e}"))) {
        (Some(exact), Some(held)) => exact == held,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_would_be_rounded_are_named() {
        for text in [
            "{\"const\": 18446744073709551617}",
            "{\"const\": -9223372036854775809}",
            "{\"enum\": [1, {\"a\": [100000000000000000000000001]}]}",
            "{\"properties\": {\"a\": {\"minimum\" : 0.1000000000000000000001}}}",
            "{\"maximum\":1e400}",
            "{\"maxLength\":123456789012345678901234567890}",
            "{\"multipleOf\":1e-400}",
        ] {
            let refused = check_numbers(text).unwrap_err().to_string();
            let number =
                text.split(|c: char| !"0123456789.-+e".contains(c)).max_by_key(|t| t.len());
            assert!(refused.contains(number.unwrap()), "{text}: {refused}");
        }
        for text in [
            "{\"const\": 18446744073709551615}",
            "{\"const\": -9223372036854775808}",
            "{\"minimum\": -1.7976931348623157e308, \"maximum\": 0.1, \"multipleOf\": 0.01}",
            "{\"const\": 1e2, \"enum\": [1.50, 100000000000000000000]}",
            "{\"default\": 18446744073709551617, \"examples\": [\"\\\"const\\\": 1e999\"]}",
            "{\"const\": \"18446744073709551617\"}",
            "{\"enum\": [1], \"other\": 18446744073709551617}",
            "-\u{e9}1\u{e9}\"\\",
            "\"\\\u{e9}\"",
        ] {
            assert_eq!(check_numbers(text), Ok(()), "{text}");
        }
    }
}
