//! Linker options of the shared library.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // llguidance has an interface of C of its own, which would be exported too
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
    }
}
