//! `pelton doctor`.

use std::fs;

use super::{pelton, stdout, temporary};

#[test]
fn the_machine_is_described_and_the_model_answers() {
    let mut command = pelton();
    command.args(["doctor", "--device", "cpu"]).env("HF_TOKEN", "hf_secret");
    let output = command.env("HTTPS_PROXY", "http://user:word@127.0.0.1:1").output().unwrap();
    let text = stdout(&output);
    assert!(text.ends_with("\nok: the built-in model answers on cpu\n"), "{text}");
    for line in ["instruction sets", "bandwidth", "hub cache", "token", "HTTPS_PROXY"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("about a second"), "{said}");
    assert!(!format!("{text}{said}").contains("secret") && !text.contains("word@"), "{text}");
}

/// The numbers are those of `/proc` and of the files in the cache.
#[test]
#[cfg(target_os = "linux")]
fn the_object_has_the_numbers_of_the_system() {
    let cache = temporary("doctor-cache");
    let _ = fs::remove_dir_all(&cache);
    fs::create_dir_all(cache.join("models--o--n/blobs")).unwrap();
    fs::write(cache.join("models--o--n/blobs/x.incomplete"), [0; 1234]).unwrap();
    let mut command = pelton();
    command.args(["doctor", "--json", "--device", "cpu"]).env("HF_HUB_CACHE", &cache);
    let output = command.env("HF_HUB_OFFLINE", "1").env("PELTON_ISA", "portable").output().unwrap();
    let found: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap();
    let total = meminfo.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024;
    assert_eq!(found["memory"]["total_bytes"], total);
    assert!(found["memory"]["free_bytes"].as_u64().unwrap() <= total);
    assert!(found["memory"]["bandwidth_bytes_per_second"].as_f64().unwrap() > 1e7, "{found}");
    assert_eq!(found["cpu"]["used"], "portable");
    assert_eq!(found["cpu"]["weights"], serde_json::json!({ "panel_rows": null, "packed": [] }));
    assert_eq!(found["folders"][0]["bytes"], 1234);
    assert_eq!(found["hub"]["offline"], true);
    assert_eq!(found["hub"]["token"], false);
    assert_eq!(found["answer"]["ok"], true);
}

/// Kernels for AVX2 read panels of eight rows.
#[test]
#[cfg(target_arch = "x86_64")]
fn the_order_of_weights_is_named() {
    if !is_x86_feature_detected!("avx2") {
        return;
    }
    let mut command = pelton();
    command.args(["doctor", "--json", "--device", "cpu"]).env("HF_HUB_OFFLINE", "1");
    let output = command.env("PELTON_ISA", "avx2").output().unwrap();
    let found: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let weights = &found["cpu"]["weights"];
    assert_eq!(weights["panel_rows"], 8);
    let packed = weights["packed"].as_array().unwrap();
    assert!(packed.contains(&"Q4_K".into()) && !packed.contains(&"F16".into()), "{packed:?}");
}

/// A setting that cannot be used, and a device that is not there, are findings.
#[test]
fn faults_are_part_of_the_report() {
    let mut command = pelton();
    command.args(["doctor", "--device", "gpu:99"]).env("HF_ENDPOINT", "nowhere");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("HF_ENDPOINT or MODEL_ENDPOINT is \"nowhere\""), "{text}");
    assert!(text.lines().last().unwrap().starts_with("failed: "), "{text}");
}
