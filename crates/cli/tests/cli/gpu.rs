//! `pelton devices` and `pelton profile`.

use super::refused;
#[cfg(feature = "gpu")]
use super::{json, pelton, stdout};

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

#[test]
fn profile_needs_a_gpu() {
    let text = refused(&["profile", "built-in", "--device", "cpu"], 1);
    assert!(text.starts_with("error: ") && text.contains("single steps"), "{text}");
}
