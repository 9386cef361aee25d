//! Regular expressions of the numbers between two bounds, exact for bounds of any size.
//!
//! A number's text is a sign, digits and perhaps a fraction; it has no exponent. The texts of an
//! interval are alternatives: each agrees with a bound up to some digit and differs there. So an
//! expression grows with the digits of its bounds, and nothing recurses.

use super::decimal::Decimal;

/// A bound of an interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    pub(super) value: Decimal,
    /// Whether the value itself is outside.
    pub(super) is_open: bool,
}

/// The numbers between two bounds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) least: Option<Bound>,
    pub(super) most: Option<Bound>,
    /// Whether they are integers.
    pub(super) is_integer: bool,
}

impl Interval {
    /// Whether a number is within it.
    pub(super) fn contains(&self, value: &Decimal) -> bool {
        let above = |bound: &Bound| *value > bound.value || !bound.is_open && *value == bound.value;
        let below = |bound: &Bound| *value < bound.value || !bound.is_open && *value == bound.value;
        self.least.as_ref().is_none_or(above)
            && self.most.as_ref().is_none_or(below)
            && (!self.is_integer || value.is_integer())
    }

    /// The expression of its numbers; `None` if it has none.
    pub(super) fn regex(&self) -> Option<String> {
        let mut interval = self.clone();
        if self.is_integer {
            for bound in interval.least.iter_mut() {
                bound.value = bound.value.next_integer(std::mem::take(&mut bound.is_open));
            }
            for bound in interval.most.iter_mut() {
                bound.value = bound.value.previous_integer(std::mem::take(&mut bound.is_open));
            }
        }
        let (least, most) = (interval.least, interval.most);
        if let (Some(least), Some(most)) = (&least, &most)
            && (least.value > most.value
                || least.value == most.value && (least.is_open || most.is_open))
        {
            return None;
        }
        let magnitudes = match self.is_integer {
            true => integers,
            false => numbers,
        };
        let zero = |is_open| Bound { value: Decimal::zero(), is_open };
        let mut all = Vec::new();
        if most.as_ref().is_none_or(|most| !most.value.is_negative) {
            let least = least.clone().filter(|least| !least.value.is_negative);
            all.extend(magnitudes(&least.unwrap_or_else(|| zero(false)), most.as_ref()));
        }
        if least.as_ref().is_none_or(|least| least.value.is_negative) {
            let negated = |bound: &Bound| Bound { value: bound.value.negated(), ..bound.clone() };
            let nearest = most.as_ref().filter(|most| most.value.is_negative).map(negated);
            let nearest = match nearest {
                Some(nearest) => nearest,
                None if self.is_integer => {
                    Bound { value: Decimal::zero().next_integer(true), is_open: false }
                }
                None => zero(true),
            };
            let negative = magnitudes(&nearest, least.as_ref().map(negated).as_ref());
            if !negative.is_empty() {
                all.push(format!("-(?:{})", negative.join("|")));
            }
        }
        (!all.is_empty()).then(|| format!("(?:{})", all.join("|")))
    }
}

/// Any digits.
fn any(least: usize, most: usize) -> String {
    match (least, most) {
        (_, 0) => String::new(),
        (1, 1) => "[0-9]".to_owned(),
        (least, most) if least == most => format!("[0-9]{{{least}}}"),
        (least, most) => format!("[0-9]{{{least},{most}}}"),
    }
}

/// One digit from a range; `None` if the range is empty.
fn digit(least: u8, most: u8) -> Option<String> {
    match least.cmp(&most) {
        std::cmp::Ordering::Less => Some(format!("[{}-{}]", least as char, most as char)),
        std::cmp::Ordering::Equal => Some((least as char).to_string()),
        std::cmp::Ordering::Greater => None,
    }
}

/// Positive integers between two bounds that are part of it, and zero.
fn integers(least: &Bound, most: Option<&Bound>) -> Vec<String> {
    wholes(&least.value.whole, most.map(|most| most.value.whole.as_str()))
}

/// Rows of digits without zeros before them, between two.
fn wholes(least: &str, most: Option<&str>) -> Vec<String> {
    let length = least.len();
    let Some(most) = most else {
        let mut all = same_length(least, &"9".repeat(length));
        all.push(format!("[1-9][0-9]{{{length},}}"));
        return all;
    };
    if least.len() > most.len() || least.len() == most.len() && least > most {
        return Vec::new();
    }
    if length == most.len() {
        return same_length(least, most);
    }
    let mut all = same_length(least, &"9".repeat(length));
    if length + 1 < most.len() {
        all.push(format!("[1-9]{}", any(length, most.len() - 2)));
    }
    all.extend(same_length(&format!("1{}", "0".repeat(most.len() - 1)), most));
    all
}

/// Rows of as many digits, between two.
fn same_length(least: &str, most: &str) -> Vec<String> {
    let (low, high) = (least.as_bytes(), most.as_bytes());
    let Some(at) = low.iter().zip(high).position(|(a, b)| a != b) else {
        return vec![least.to_owned()];
    };
    let (prefix, rest) = (&least[..at], low.len() - at - 1);
    let is_all = |digits: &str, digit: u8| digits.bytes().all(|byte| byte == digit);
    let (below, above) = (&least[at + 1..], &most[at + 1..]);
    let mut all = Vec::new();
    let (mut first, mut last) = (low[at], high[at]);
    if !is_all(below, b'0') {
        all.extend(tails(&least[..=at], below, b'0', |d| digit(d + 1, b'9')));
        first += 1;
    }
    if !is_all(above, b'9') {
        all.extend(tails(&most[..=at], above, b'9', |d| digit(b'0', d.saturating_sub(1))));
        last -= 1;
    }
    all.extend(digit(first, last).map(|digit| format!("{prefix}{digit}{}", any(rest, rest))));
    all
}

/// Rows that begin with a prefix and go on on one side of a tail, or as the tail. From where the
/// tail has nothing but `end`, all rows are on that side.
fn tails(prefix: &str, tail: &str, end: u8, beyond: impl Fn(u8) -> Option<String>) -> Vec<String> {
    let mut all = Vec::new();
    for (at, byte) in tail.bytes().enumerate() {
        let rest = tail.len() - at;
        if tail.bytes().skip(at).all(|byte| byte == end) {
            all.push(format!("{prefix}{}{}", &tail[..at], any(rest, rest)));
            return all;
        }
        // the digit that ends no side has none beyond it
        let digit = if byte == if end == b'0' { b'9' } else { b'0' } { None } else { beyond(byte) };
        let rest = any(rest - 1, rest - 1);
        all.extend(digit.map(|digit| format!("{prefix}{}{digit}{rest}", &tail[..at])));
    }
    all.push(format!("{prefix}{tail}"));
    all
}

/// Positive numbers between two bounds, and zero.
fn numbers(least: &Bound, most: Option<&Bound>) -> Vec<String> {
    let (low, high) = (&least.value, most.map(|most| &most.value));
    if let (Some(high), Some(most)) = (high, most)
        && low.whole == high.whole
    {
        let fractions = match low.fraction == high.fraction {
            true if least.is_open || most.is_open => Vec::new(),
            true if low.fraction.is_empty() => vec!["(?:\\.0+)?".to_owned()],
            true => vec![format!("\\.{}0*", low.fraction)],
            false if low.fraction > high.fraction => Vec::new(),
            false => between(least, most),
        };
        return fractions.iter().map(|fraction| format!("{}{fraction}", low.whole)).collect();
    }
    let join = |whole: &str, fractions: Vec<String>| match fractions.is_empty() {
        true => None,
        false => Some(format!("{whole}(?:{})", fractions.join("|"))),
    };
    let mut all = Vec::new();
    all.extend(join(&low.whole, from(&low.fraction, least.is_open)));
    let next = low.next_integer(true).whole;
    let next = if low.is_integer() { next } else { low.next_integer(false).whole };
    let inner = match high {
        None => wholes(&next, None),
        Some(high) if high.whole == "0" => Vec::new(),
        Some(high) => {
            let last = Decimal { fraction: String::new(), ..high.clone() }.previous_integer(true);
            wholes(&next, Some(&last.whole))
        }
    };
    if !inner.is_empty() {
        all.push(format!("(?:{})(?:\\.[0-9]+)?", inner.join("|")));
    }
    if let (Some(high), Some(most)) = (high, most)
        && (high.whole.len(), &high.whole) > (low.whole.len(), &low.whole)
    {
        all.extend(join(&high.whole, up_to(&high.fraction, most.is_open)));
    }
    all
}

/// Digits, at least one of which is not zero.
const SOME: &str = "[0-9]*[1-9][0-9]*";

/// Digits after a prefix that are not below some.
fn digits_from(prefix: &str, digits: &str, is_open: bool) -> Vec<String> {
    let mut all: Vec<String> = digits
        .bytes()
        .enumerate()
        .filter(|(_, byte)| *byte < b'9')
        .filter_map(|(at, byte)| {
            let digit = digit(byte + 1, b'9')?;
            Some(format!("{prefix}{}{digit}[0-9]*", &digits[..at]))
        })
        .collect();
    all.push(format!("{prefix}{digits}{}", if is_open { SOME } else { "[0-9]*" }));
    all
}

/// Digits after a prefix that are not above some: at least one digit.
fn digits_up_to(prefix: &str, digits: &str, is_open: bool) -> Vec<String> {
    let mut all = Vec::new();
    for (at, byte) in digits.bytes().enumerate() {
        if !(prefix.is_empty() && at == 0) {
            // fewer digits are less
            all.push(format!("{prefix}{}", &digits[..at]));
        }
        if byte > b'0' {
            let digit = digit(b'0', byte - 1);
            all.extend(digit.map(|digit| format!("{prefix}{}{digit}[0-9]*", &digits[..at])));
        }
    }
    if !is_open {
        all.push(format!("{prefix}{digits}0*"));
    }
    all
}

/// Fractions that are not below one.
fn from(fraction: &str, is_open: bool) -> Vec<String> {
    match (fraction, is_open) {
        ("", false) => vec!["(?:\\.[0-9]+)?".to_owned()],
        (fraction, is_open) => vec![pointed(&digits_from("", fraction, is_open))],
    }
}

/// Fractions that are not above one.
fn up_to(fraction: &str, is_open: bool) -> Vec<String> {
    match (fraction, is_open) {
        ("", false) => vec!["(?:\\.0+)?".to_owned()],
        ("", true) => Vec::new(),
        (fraction, is_open) => {
            let digits = digits_up_to("", fraction, is_open);
            vec![format!("(?:{})?", pointed(&digits))]
        }
    }
}

/// Fractions between two different ones.
fn between(least: &Bound, most: &Bound) -> Vec<String> {
    let (low, high) = (&least.value.fraction, &most.value.fraction);
    let low_digit = |at: usize| low.as_bytes().get(at).copied().unwrap_or(b'0');
    let at = high.bytes().enumerate().position(|(at, byte)| byte != low_digit(at)).unwrap_or(0);
    let prefix = &high[..at];
    let (first, last) = (low_digit(at), high.as_bytes()[at]);
    let mut all = Vec::new();
    // the lower bound, of fewer digits than it agrees in
    let is_short = low.len() <= at;
    if is_short && !least.is_open {
        all.push(format!("{low}0{}", if low.is_empty() { '+' } else { '*' }));
    }
    let rest = low.get(at + 1..).unwrap_or("");
    let begun = format!("{prefix}{}", first as char);
    all.extend(digits_from(&begun, rest, least.is_open || is_short));
    if let Some(digit) = digit(first + 1, last - 1) {
        all.push(format!("{prefix}{digit}[0-9]*"));
    }
    let begun = format!("{prefix}{}", last as char);
    all.extend(digits_up_to(&begun, &high[at + 1..], most.is_open));
    let mut fractions = vec![pointed(&all)];
    if low.is_empty() && !least.is_open {
        fractions.push(String::new());
    }
    fractions
}

fn pointed(digits: &[String]) -> String {
    format!("\\.(?:{})", digits.join("|"))
}

#[cfg(test)]
mod tests {
    use llguidance::derivre::{Regex, RegexBuilder};

    use super::*;

    fn compiled(interval: &Interval) -> Option<Regex> {
        let mut builder = RegexBuilder::new();
        let regex = builder.mk_regex(&interval.regex()?).unwrap();
        Some(builder.to_regex(regex))
    }

    fn bound(text: &str, is_open: bool) -> Bound {
        Bound { value: Decimal::parse(text).unwrap(), is_open }
    }

    /// Thousandths of a text of a number.
    fn thousandths(text: &str) -> i64 {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = format!("{whole}{fraction:0<3}");
        digits.parse().unwrap()
    }

    #[test]
    fn integers_are_those_of_a_count() {
        let marks = [-1000, -999, -130, -101, -100, -99, -20, -11, -10, -9, -2, -1];
        let marks = marks.iter().flat_map(|mark| [*mark, -mark]).chain([0]);
        let marks: Vec<Option<i64>> = marks.map(Some).chain([None]).collect();
        for &least in &marks {
            for &most in &marks {
                let is_open = least.unwrap_or(1) % 2 == 0;
                let interval = Interval {
                    least: least.map(|least| bound(&least.to_string(), is_open)),
                    most: most.map(|most| bound(&most.to_string(), false)),
                    is_integer: true,
                };
                let first = least.map_or(i64::MIN, |least| least + i64::from(is_open));
                let last = most.unwrap_or(i64::MAX);
                let mut regex = compiled(&interval);
                assert_eq!(regex.is_some(), first <= last, "{interval:?}");
                for n in -1102..1102 {
                    let matches =
                        regex.as_mut().is_some_and(|regex| regex.is_match(&n.to_string()));
                    assert_eq!(matches, (first..=last).contains(&n), "{n} {interval:?}");
                }
                for text in ["", "-", "-0", "01", "007", "-01", "1.0", "1e2", "+1"] {
                    let matches = regex.as_mut().is_some_and(|regex| regex.is_match(text));
                    assert!(!matches, "{text} {interval:?}");
                }
            }
        }
    }

    #[test]
    fn numbers_are_those_of_a_comparison() {
        let marks = [
            "0", "0.5", "0.05", "0.125", "0.124", "0.9", "0.99", "1", "1.5", "1.05", "9", "9.9",
            "10", "10.01", "99.999", "100", "12",
        ];
        let negative = marks.iter().map(|mark| format!("-{mark}"));
        let marks: Vec<String> =
            marks.iter().map(|mark| (*mark).to_owned()).chain(negative).collect();
        let mut texts = marks.clone();
        let magnitudes =
            ["0.001", "0.049", "0.051", "0.1", "0.12", "0.1249", "0.126", "0.4", "0.49"];
        texts.extend(magnitudes.map(str::to_owned));
        for more in
            ["0.500", "0.00", "1.000", "1.04", "1.06", "8.999", "9.89", "9.91", "10.1", "11"]
        {
            texts.extend([more.to_owned(), format!("-{more}")]);
        }
        texts.extend(["100.001", "101", "1000", "-100.1", "-99.99", "0.0501"].map(str::to_owned));
        let all: Vec<Option<&String>> = marks.iter().map(Some).chain([None]).collect();
        for (i, least) in all.iter().enumerate() {
            for (j, most) in all.iter().enumerate() {
                let (low_open, high_open) = (i % 2 == 0, j % 3 == 0);
                let interval = Interval {
                    least: least.map(|text| bound(text, low_open)),
                    most: most.map(|text| bound(text, high_open)),
                    is_integer: false,
                };
                let low = least.map(|text| thousandths(text) * 10);
                let high = most.map(|text| thousandths(text) * 10);
                let mut regex = compiled(&interval);
                for text in &texts {
                    let (short, last) = match text.split_once('.') {
                        Some((_, fraction)) if fraction.len() == 4 => text.split_at(text.len() - 1),
                        _ => (text.as_str(), "0"),
                    };
                    let sign = if text.starts_with('-') { -1 } else { 1 };
                    let value = thousandths(short) * 10 + sign * last.parse::<i64>().unwrap();
                    let is_above = low.is_none_or(|low| value > low || !low_open && value == low);
                    let is_below =
                        high.is_none_or(|high| value < high || !high_open && value == high);
                    // the zero has no sign
                    let is_signed_zero = value == 0 && text.starts_with('-');
                    let expected = is_above && is_below && !is_signed_zero;
                    let matches = regex.as_mut().is_some_and(|regex| regex.is_match(text));
                    assert_eq!(matches, expected, "{text} {interval:?} {:?}", interval.regex());
                    let known = Decimal::parse(text).unwrap();
                    assert_eq!(
                        interval.contains(&known),
                        is_above && is_below,
                        "{text} {interval:?}"
                    );
                }
                for text in ["1.", ".5", "-.5", "00.5", "1e1", "-0.0"] {
                    let matches = regex.as_mut().is_some_and(|regex| regex.is_match(text));
                    assert!(!matches, "{text} {interval:?}");
                }
            }
        }
    }

    #[test]
    fn large_bounds_have_short_expressions() {
        for (least, most) in [
            ("-9223372036854775808", "18446744073709551615"),
            ("-1.7976931348623157e308", "5e-324"),
        ] {
            for is_integer in [true, false] {
                let least = Some(bound(least, false));
                let most = Some(bound(most, true));
                let regex = Interval { least, most, is_integer }.regex().unwrap();
                assert!(regex.len() < 60_000, "{}", regex.len());
            }
        }
    }
}
