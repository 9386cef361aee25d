//! The flags of the linker with which macOS loads a module: Python's symbols are
//! found at its import.

fn main() {
    pyo3_build_config::add_extension_module_link_args();
}
