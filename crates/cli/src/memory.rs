//! Sizes of memory on the command line.

use pelton::KvMemory;

/// The values of `--kv-memory`.
const EXPECTED: &str = "auto, bytes such as 800M or 2G, or a share of the free memory such as 50%";

/// Parses `auto`, bytes with the suffix K, M or G (powers of 1,024), or a percentage.
pub(crate) fn parse(text: &str) -> Result<KvMemory, String> {
    let fail = || format!("expected {EXPECTED}");
    if text == "auto" {
        return Ok(KvMemory::Auto);
    }
    if let Some(percent) = text.strip_suffix('%') {
        let percent: f32 = percent.parse().map_err(|_| fail())?;
        return match percent > 0.0 && percent <= 100.0 {
            true => Ok(KvMemory::ShareOfFree(percent / 100.0)),
            false => Err("expected a percentage above 0, up to 100".to_owned()),
        };
    }
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit: u64 = match &text[digits.len()..] {
        "" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        _ => return Err(fail()),
    };
    let number: u64 = digits.parse().map_err(|_| fail())?;
    match number.checked_mul(unit) {
        Some(bytes) if bytes > 0 => Ok(KvMemory::Bytes(bytes)),
        _ => Err(format!("expected 1 to {} bytes", u64::MAX)),
    }
}

/// Parses bytes with the suffix K, M or G.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    match parse(text) {
        Ok(KvMemory::Bytes(bytes)) => Ok(bytes),
        _ => Err("expected bytes such as 800M or 2G".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse("auto"), Ok(KvMemory::Auto));
        assert_eq!(parse("1000"), Ok(KvMemory::Bytes(1000)));
        assert_eq!(parse("3k"), Ok(KvMemory::Bytes(3072)));
        assert_eq!(parse("800M"), Ok(KvMemory::Bytes(838_860_800)));
        assert_eq!(parse("2G"), Ok(KvMemory::Bytes(2_147_483_648)));
        assert_eq!(parse("50%"), Ok(KvMemory::ShareOfFree(0.5)));
        assert_eq!(parse("12.5%"), Ok(KvMemory::ShareOfFree(0.125)));
        let bad = [
            "",
            "G",
            "0",
            "0%",
            "101%",
            "nan%",
            "-5%",
            "%",
            "-1",
            "1.5G",
            "1GB",
            "2 G",
            "2Ω",
            "18446744073709551616",
            "18446744073709551615K",
        ];
        for text in bad {
            let sentence = parse(text).unwrap_err();
            assert!(sentence.starts_with("expected "), "{text}: {sentence}");
        }
    }
}
