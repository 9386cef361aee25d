//! `pelton devices` and `pelton profile`.

#[cfg(feature = "gpu")]
use super::pelton;
use super::{fixture, json, run, stdout};

/// Both formats list the same GPUs, and there are no warnings on standard error.
#[cfg(feature = "gpu")]
#[test]
fn devices() {
    let output = pelton().arg("devices").env_remove("XDG_RUNTIME_DIR").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let text = stdout(&output);
    let list = json(&["devices", "--json"]);
    let list = list.as_array().unwrap();
    for (i, device) in list.iter().enumerate() {
        let name = device["name"].as_str().unwrap();
        assert_eq!(device["device"], format!("gpu:{i}"));
        assert!(text.contains(&format!("gpu:{i}  {name}\n")), "{text}");
        assert!(device["subgroup_widths"][0].as_u64() <= device["subgroup_widths"][1].as_u64());
    }
    match list.len() {
        0 => assert!(text.starts_with("no GPU was found"), "{text}"),
        count => assert_eq!(text.lines().count(), 3 * count, "{text}"),
    }
}

/// Only the bytes of the experts that a token uses are counted of a mixture.
#[test]
fn profile_on_the_cpu() {
    let model = fixture("models/qwen3-moe/model.gguf");
    let args = ["profile", &model, "--device", "cpu", "--threads", "1", "--tokens", "2"];
    let text = stdout(&run(&args));
    assert!(text.contains("| expert_glu | 2 |") && !text.contains("dispatches,"), "{text}");
    let object = json(&[&args[..], &["-o", "json"]].concat());
    let steps = object["steps"].as_array().unwrap().iter();
    let experts = steps.filter(|step| step["op"].as_str().unwrap().starts_with("expert"));
    let bytes: u64 = experts.map(|step| step["bytes"].as_u64().unwrap()).sum();
    // 2 layers, 3 matrices of 2 experts each of 16 × 32 elements in F32
    assert_eq!(bytes, 2 * 3 * 2 * 16 * 32 * 4);
    assert!(object["pass_microseconds"].as_f64().unwrap() > 0.0, "{object}");
}

/// At an effort the codes of the live inputs are read, and all scales.
#[test]
fn profile_of_an_effort() {
    let bytes = |effort: &str| {
        let args = [
            "profile",
            "built-in",
            "--device",
            "cpu",
            "--threads",
            "2",
            "--tokens",
            "1",
            "-o",
            "json",
        ];
        let object = json(&[&args[..], &["--effort", effort]].concat());
        let steps = object["steps"].as_array().unwrap().clone();
        let of = |name: &str| -> Vec<u64> {
            let kind = |step: &&serde_json::Value| step["kind"].as_str().unwrap().contains(name);
            steps.iter().filter(kind).map(|step| step["bytes"].as_u64().unwrap()).collect()
        };
        [of("ffn_down"), of("attn_output")]
    };
    // 8 layers; 768 and 256 inputs of 256 outputs, in blocks of 32 codes and a scale of two bytes
    assert_eq!(bytes("1"), [vec![256 * 24 * 34; 8], vec![256 * 8 * 34; 8]]);
    // how many inputs of a token are live depends on the token
    for (found, blocks) in bytes("0.5").into_iter().zip([24, 8]) {
        assert_eq!(found.len(), 8);
        let [scales, all] = [2, 34].map(|bytes| 256 * blocks * bytes);
        assert!(found.iter().all(|bytes| (scales + 1..all).contains(bytes)), "{found:?}");
    }
}

/// Where all GPUs are drivers in software, `--device gpu` says so and how to run on one.
#[cfg(feature = "gpu")]
#[test]
fn a_driver_in_software_is_named() {
    let list = json(&["devices", "--json"]);
    let list = list.as_array().unwrap();
    if list.is_empty() || list.iter().any(|device| device["kind"] != "software") {
        return pelton_testing::skip(pelton_testing::Need::Capability, "software drivers alone");
    }
    let said = super::refused(&["run", "built-in", "x", "--device", "gpu"], 1);
    let name = list[0]["name"].as_str().unwrap();
    assert!(said.contains(name) && said.contains("--device gpu:0"), "{said}");
}
