//! Tests of the linker, without a GPU. Those of the kernels: run/executable/tests/persistent.rs.

use super::{
    choose::probe_phase,
    wgsl::{declarations, lexemes},
};

#[test]
fn lexemes_of_wgsl() {
    let text = "let a1 = -1e-5f+0x0eu-2.0; // e\nb.x";
    let words: Vec<&str> = lexemes(text).into_iter().filter(|t| t.trim() != "").collect();
    let expected = ["let", "a1", "=", "-", "1e-5f", "+", "0x0eu", "-", "2.0", ";", "b", ".", "x"];
    assert_eq!(words, expected);
}

#[test]
fn what_cannot_be_linked_is_refused() {
    let text = "@group(0) @binding(0) var<storage, read> a: array<f32>;";
    assert!(declarations(text).unwrap_err().contains("entry point"));
    for text in
        ["override a = 1;", "var<private> a: f32;", "fn f() {", "var<workgroup> a: array<f32, N>;"]
    {
        assert!(declarations(text).is_err(), "{text}");
    }
    assert_eq!(declarations(probe_phase(64, 3).unwrap().text()).unwrap().threads, 64);
}
