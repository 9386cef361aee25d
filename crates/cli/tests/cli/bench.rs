//! `pelton bench`.

use super::{json, refused, run, stdout};

#[test]
fn bench() {
    let args = ["bench", "built-in", "-p", "8", "-n", "4", "-r", "2", "--threads", "1"];
    let rows = json(&[&args[..], &["-o", "json"]].concat());
    let tests: Vec<_> = rows.as_array().unwrap().iter().map(|r| r["test"].clone()).collect();
    assert_eq!(tests, ["pp8", "tg4"]);
    assert!(rows[0]["runs"].as_array().unwrap().iter().all(|r| r.as_f64().unwrap() > 0.0));
    let table = stdout(&run(&args));
    assert!(table.lines().count() == 4 && table.contains("pp8") && table.contains('±'), "{table}");
    let csv = stdout(&run(&[&args[..], &["-o", "csv"]].concat()));
    assert!(csv.starts_with("model,") && csv.lines().count() == 3, "{csv}");
    let deep = json(&[&args[..], &["--depth", "20", "-o", "json"]].concat());
    assert_eq!((&deep[0]["test"], &deep[1]["test"]), (&"pp8 @ d20".into(), &"tg4 @ d20".into()));
}

const STREAMS: [&str; 11] =
    ["bench", "built-in", "--streams", "1,3", "-p", "80", "-n", "4", "-r", "2", "--threads"];

#[test]
fn streams() {
    let args = [&STREAMS[..], &["1", "--device", "cpu", "--shared-prefix", "70"]].concat();
    let rows = json(&[&args[..], &["-o", "json"]].concat());
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for (row, streams) in rows.iter().zip([1, 3]) {
        assert_eq!((&row["streams"], &row["test"]), (&streams.into(), &"pp80+tg4 @ s70".into()));
        assert_eq!((&row["prompt_tokens"], &row["tokens"]), (&80.into(), &4.into()));
        for figure in [
            "prefill_tokens_per_second",
            "decode_tokens_per_second",
            "time_to_first_token_p50_ms",
            "time_to_first_token_p99_ms",
            "time_between_tokens_p50_ms",
            "time_between_tokens_p99_ms",
        ] {
            let of = |key: &str| row[figure][key].as_f64().unwrap();
            assert!(0.0 <= of("min") && of("min") <= of("median"), "{row}");
            assert!(of("median") <= of("max") && of("max") > 0.0, "{row}");
        }
        // the full page of the prefix is computed once
        assert_eq!(row["cached_tokens"], 64 * (streams - 1), "{row}");
        assert_eq!(row["preemptions"], 0);
    }
    let table = stdout(&run(&args));
    assert!(table.lines().count() == 4 && table.contains("| 3 |"), "{table}");
    let csv = stdout(&run(&[&args[..], &["-o", "csv"]].concat()));
    assert_eq!(csv.lines().count(), 3, "{csv}");
    let columns: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
    assert_eq!(columns, [13, 13, 13], "{csv}");
}

#[test]
fn constrained_and_drafted() {
    let args = ["bench", "built-in", "--device", "cpu", "-p", "8", "-n", "40", "-r", "2"];
    let bench = |more: &[&'static str]| [&args[..], &["--threads", "1"], more].concat();
    let row = &json(&bench(&["--regex", "([a-z]{4}, the fox ran\\. ){50}", "-o", "json"]))[0];
    assert_eq!((&row["tokens"], row["runs"].as_array().unwrap().len()), (&80.into(), 2));
    let forced = row["forced"].as_u64().unwrap();
    assert!(20 < forced && forced < 80 && row["ratio"]["median"].as_f64().unwrap() > 0.0, "{row}");
    let table = stdout(&run(&bench(&["--json-object", "--constrain-after", "zzz"])));
    assert!(table.lines().count() == 3 && table.contains("| 0 of 80 |"), "{table}");
    let drafts = ["--speculation", "--speculate", "always", "--draft", "built-in", "-o", "json"];
    let rows = json(&bench(&drafts));
    assert_eq!((&rows[0]["task"], rows.as_array().unwrap().len()), (&"draft".into(), 1));
    let count = |key: &str| rows[0]["drafts"][key].as_u64().unwrap();
    assert!(count("accepted") > 40 && count("accepted") <= count("drafted"), "{rows}");
    let text = refused(&bench(&["--json-object", "--speculation"]), 1);
    assert!(text.contains("found a constraint with --speculation"), "{text}");
    let text = refused(&bench(&["--regex", "[a-c]"]), 1);
    assert!(text.contains("a text ended after"), "{text}");
}

#[test]
fn streams_are_checked() {
    let bench = |more: &[&'static str]| [&["bench", "built-in", "--device", "cpu"], more].concat();
    for wrong in [
        &["--streams", "0"][..],
        &["--streams", "1,0,2"],
        &["--streams", "two"],
        &["--streams", "5000"],
        &["--streams", ""],
        &["--streams", "1", "--depth", "5"],
        &["--shared-prefix", "5"],
    ] {
        let text = refused(&bench(wrong), 2);
        assert!(text.contains(wrong[0]), "{wrong:?}: {text}");
    }
    let huge = &["-p", "18446744073709551615", "--streams", "2"][..];
    for (wrong, expected) in [
        (&["--streams", "2", "-p", "0"][..], "-p is 0"),
        (&["--streams", "2", "-n", "1"], "-n is 1"),
        (&["--streams", "2", "-p", "8,16"], "-p has 2 values"),
        (&["--streams", "2", "-p", "8", "--shared-prefix", "8"], "--shared-prefix is 8"),
        (&["--streams", "2", "--context", "100"], "--context is 100, expected the 192"),
        (&["--streams", "2", "-p", "1000"], "'context' is 1064"),
        (huge, "-p 18446744073709551615 and -n 64 are too many positions"),
    ] {
        let text = refused(&bench(wrong), 1);
        assert!(text.contains(expected), "{wrong:?}: {text}");
    }
}

#[test]
fn lengths_do_not_overflow() {
    let most = "18446744073709551615";
    let text = refused(&["bench", "built-in", "-p", most, "--depth", "10"], 1);
    assert!(text.contains(&format!("--depth 10 and -p {most} are too many")), "{text}");
    let text = refused(&["bench", "built-in", "-n", most, "--depth", "1"], 1);
    assert!(text.contains(&format!("--depth 1 and -n {most} are too many")), "{text}");
    let text = refused(&["bench", "built-in", "-p", most, "--device", "cpu"], 1);
    assert!(text.contains("'context' is") && text.contains("hint: without --context"), "{text}");
    let text = refused(&["profile", "built-in", "--depth", most, "--rows", "2"], 1);
    assert!(text.contains(&format!("--depth {most} and --rows 2 are too many")), "{text}");
}

#[test]
fn efforts_take_turns() {
    let args = ["bench", "built-in", "-p", "0", "-n", "3", "-r", "2", "-t", "1", "--device", "cpu"];
    let rows = json(&[&args[..], &["--efforts", "1,0.5", "-o", "json"]].concat());
    let tests: Vec<_> = rows.as_array().unwrap().iter().map(|r| r["test"].clone()).collect();
    assert_eq!(tests, ["tg3", "tg3 e0.5"]);
    assert!(rows.as_array().unwrap().iter().all(|r| r["runs"].as_array().unwrap().len() == 2));
    let one = json(&[&args[..], &["--effort", "0.25", "-o", "json"]].concat());
    assert_eq!(one[0]["test"], "tg3 e0.25");
    let message = refused(&["bench", "built-in", "--efforts", "0"], 2);
    assert!(message.contains("above 0 and at most 1"), "{message}");
}
