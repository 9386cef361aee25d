//! Decimal numbers of any size, compared and changed digit by digit.

use std::cmp::Ordering;

use serde_json::Number;

/// Limit of the digits of a number: more than the largest and the smallest 64-bit floats have.
const DIGITS_MAX: usize = 400;

/// A number as its decimal digits. Zero has no sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    pub(super) is_negative: bool,
    /// Digits before the point, at least one, without zeros before them.
    pub(super) whole: String,
    /// Digits after the point, without zeros behind them.
    pub(super) fraction: String,
}

impl Decimal {
    /// The value of a number's text, if it has no more digits than the limit.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (is_negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (digits, exponent) = match text.split_once(['e', 'E']) {
            Some((digits, exponent)) => (digits, exponent),
            None => (text, "0"),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all = format!("{whole}{fraction}");
        if all.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        if all.bytes().all(|byte| byte == b'0') {
            return Some(Self::zero());
        }
        let significant = all.trim_start_matches('0');
        // an exponent without an end is far beyond the limit too
        let exponent: i64 = exponent.parse().ok()?;
        let skipped = (all.len() - significant.len()) as i64;
        let point = (whole.len() as i64).checked_add(exponent)?.checked_sub(skipped)?;
        let significant = significant.trim_end_matches('0');
        let limit = DIGITS_MAX as i64;
        let length = significant.len() as i64;
        if point > limit || length > limit || length.checked_sub(point)? > limit {
            return None;
        }
        let (whole, fraction) = match usize::try_from(point) {
            Ok(point) if point >= significant.len() => {
                (format!("{significant}{}", "0".repeat(point - significant.len())), String::new())
            }
            Ok(point) if point > 0 => {
                (significant[..point].to_owned(), significant[point..].to_owned())
            }
            _ => {
                let zeros = "0".repeat(point.unsigned_abs() as usize);
                ("0".to_owned(), format!("{zeros}{significant}"))
            }
        };
        Some(Self { is_negative, whole, fraction })
    }

    /// The value of a JSON number. A float has the shortest digits that are read as it.
    pub(super) fn of(number: &Number) -> Option<Self> {
        Self::parse(&number.to_string())
    }

    pub(super) fn zero() -> Self {
        Self { is_negative: false, whole: "0".to_owned(), fraction: String::new() }
    }

    pub(super) fn is_integer(&self) -> bool {
        self.fraction.is_empty()
    }

    pub(super) fn is_zero(&self) -> bool {
        self.whole == "0" && self.fraction.is_empty()
    }

    pub(super) fn negated(&self) -> Self {
        Self { is_negative: !self.is_negative && !self.is_zero(), ..self.clone() }
    }

    /// The least integer that is not below it; above it, if `is_above`.
    pub(super) fn next_integer(&self, is_above: bool) -> Self {
        let mut next = Self { fraction: String::new(), ..self.clone() };
        let moves = if self.is_integer() { is_above } else { !self.is_negative };
        if moves {
            match self.is_negative {
                true => decrement(&mut next.whole),
                false => increment(&mut next.whole),
            }
        }
        next.is_negative &= !next.is_zero();
        next
    }

    /// The greatest integer that is not above it; below it, if `is_below`.
    pub(super) fn previous_integer(&self, is_below: bool) -> Self {
        self.negated().next_integer(is_below).negated()
    }

    /// All digits as a whole number, and how many of them are behind the point.
    pub(super) fn scaled(&self) -> Option<(u32, u32)> {
        let digits = format!("{}{}", self.whole, self.fraction);
        Some((digits.parse().ok()?, self.fraction.len() as u32))
    }

    fn compare_magnitude(&self, other: &Self) -> Ordering {
        let key = |number: &Self| (number.whole.len(), number.whole.clone());
        key(self).cmp(&key(other)).then_with(|| self.fraction.cmp(&other.fraction))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.is_negative, other.is_negative) {
            (false, false) => self.compare_magnitude(other),
            (true, true) => other.compare_magnitude(self),
            (is_negative, _) => {
                if is_negative {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Adds one to a row of digits.
fn increment(digits: &mut String) {
    let kept = digits.trim_end_matches('9').len();
    let zeros = "0".repeat(digits.len() - kept);
    digits.truncate(kept);
    let last = digits.pop().unwrap_or('0');
    digits.push((last as u8 + 1) as char);
    digits.push_str(&zeros);
}

/// Takes one from a row of digits that is not zero.
fn decrement(digits: &mut String) {
    let kept = digits.trim_end_matches('0').len();
    let nines = "9".repeat(digits.len() - kept);
    digits.truncate(kept);
    let last = digits.pop().unwrap_or('1');
    if last != '1' || !digits.is_empty() || nines.is_empty() {
        digits.push((last as u8 - 1) as char);
    }
    digits.push_str(&nines);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::parse(text).unwrap()
    }

    fn text(number: &Decimal) -> String {
        let sign = if number.is_negative { "-" } else { "" };
        let point = if number.fraction.is_empty() { "" } else { "." };
        format!("{sign}{}{point}{}", number.whole, number.fraction)
    }

    #[test]
    fn texts_of_numbers_are_read_exactly() {
        for (number, expected) in [
            ("0", "0"),
            ("-0", "0"),
            ("-0.0e5", "0"),
            ("1.0", "1"),
            ("1.50", "1.5"),
            ("1e3", "1000"),
            ("1.25E+1", "12.5"),
            ("-125e-1", "-12.5"),
            ("0.001e1", "0.01"),
            ("12e-4", "0.0012"),
            ("9007199254740993", "9007199254740993"),
            ("-9223372036854775808", "-9223372036854775808"),
        ] {
            assert_eq!(text(&decimal(number)), expected, "{number}");
        }
        assert_eq!(decimal("1e308").whole.len(), 309);
        assert_eq!(decimal("5e-324").fraction.len(), 324);
        for number in ["1e401", "1e-401", "1e99999999999999999999", "", "-", "1x", "1e"] {
            assert_eq!(Decimal::parse(number), None, "{number}");
        }
    }

    #[test]
    fn integers_beside_a_number() {
        for (number, next, above, previous, below) in [
            ("0", "0", "1", "0", "-1"),
            ("1", "1", "2", "1", "0"),
            ("-1", "-1", "0", "-1", "-2"),
            ("1.5", "2", "2", "1", "1"),
            ("-1.5", "-1", "-1", "-2", "-2"),
            ("-0.5", "0", "0", "-1", "-1"),
            ("99", "99", "100", "99", "98"),
            ("-100", "-100", "-99", "-100", "-101"),
            ("100", "100", "101", "100", "99"),
            ("-10", "-10", "-9", "-10", "-11"),
            ("9.5", "10", "10", "9", "9"),
        ] {
            let number = decimal(number);
            assert_eq!(text(&number.next_integer(false)), next, "{number:?}");
            assert_eq!(text(&number.next_integer(true)), above, "{number:?}");
            assert_eq!(text(&number.previous_integer(false)), previous, "{number:?}");
            assert_eq!(text(&number.previous_integer(true)), below, "{number:?}");
        }
    }

    #[test]
    fn numbers_are_in_order() {
        let all = ["-1e300", "-10", "-2.5", "-2", "-0.01", "0", "5e-324", "0.1", "0.11", "2", "10"];
        let all = all.map(decimal);
        for (i, a) in all.iter().enumerate() {
            for (j, b) in all.iter().enumerate() {
                assert_eq!(a.cmp(b), i.cmp(&j), "{a:?} {b:?}");
            }
        }
    }
}
