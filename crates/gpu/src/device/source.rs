//! The WGSL of a kernel, which declares its bindings.

use std::borrow::Cow;

/// The access of a kernel to a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    ReadWrite,
}

/// A buffer that a kernel binds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    /// Its name in the kernel.
    pub(crate) name: String,
    pub(crate) access: Access,
}

/// The WGSL of a kernel with the entry point `main`, and its bindings in the order of their
/// numbers.
///
/// A kernel declares a buffer without numbers, such as `var<storage, read> x: array<f32>;`. The
/// declarations get the numbers 0, 1, … in the order of the text. The layout of the bindings and
/// the order of a dispatch's buffers follow from them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KernelSource {
    text: String,
    bindings: Vec<Binding>,
}

/// The directives before every kernel in a browser, whose compiler wants subgroups to be enabled,
/// which naga does not know.
///
/// It also refuses subgroup operations in control flow that it cannot prove to be uniform. Kernels
/// branch by values that are equal in a subgroup, which tests on GPUs show.
pub(crate) const BROWSER_PRELUDE: &str =
    "enable subgroups;\ndiagnostic(off, subgroup_uniformity);\n";

/// The beginning of the declaration of a buffer.
const DECLARATION: &str = "var<storage, ";

impl KernelSource {
    pub(crate) fn new(text: &str) -> Self {
        let (mut numbered, mut bindings) = (String::with_capacity(text.len()), Vec::new());
        let mut rest = text;
        while let Some((before, variable)) = rest.split_once(DECLARATION) {
            numbered.push_str(before);
            if let Some(binding) = declared(variable) {
                numbered.push_str(&format!("@group(0) @binding({}) ", bindings.len()));
                bindings.push(binding);
            }
            numbered.push_str(DECLARATION);
            rest = variable;
        }
        numbered.push_str(rest);
        Self { text: numbered, bindings }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The text as the target compiles it.
    pub(crate) fn with_prelude(&self) -> Cow<'_, str> {
        match cfg!(target_family = "wasm") {
            true => Cow::Owned(format!("{BROWSER_PRELUDE}{}", self.text)),
            false => Cow::Borrowed(&self.text),
        }
    }

    pub(crate) fn bindings(&self) -> &[Binding] {
        &self.bindings
    }

    /// The same declarations with another text.
    #[cfg(test)]
    pub(crate) fn mapped(self, map: impl FnOnce(&str) -> String) -> Self {
        Self { text: map(&self.text), ..self }
    }
}

/// The binding of a declaration, after its [beginning](DECLARATION).
fn declared(variable: &str) -> Option<Binding> {
    let (access, variable) = variable.split_once("> ")?;
    let access = match access {
        "read" => Access::Read,
        "read_write" => Access::ReadWrite,
        _ => return None,
    };
    let (name, _) = variable.split_once(':')?;
    Some(Binding { name: name.to_owned(), access })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_are_numbered_in_their_order() {
        // an included file may end without a line break
        let text = "fn f() {\n}var<storage, read> x: array<f32>;\n// of rows\n\
            @coherent var<storage, read_write> y: array<vec4<u32>>;\nvar<workgroup> z: u32;\n";
        let source = KernelSource::new(text);
        let numbered = "fn f() {\n}@group(0) @binding(0) var<storage, read> x: array<f32>;\n\
            // of rows\n@coherent @group(0) @binding(1) var<storage, read_write> y: \
            array<vec4<u32>>;\nvar<workgroup> z: u32;\n";
        assert_eq!(source.text(), numbered);
        let binding = |name: &str, access| Binding { name: name.to_owned(), access };
        let bindings = [binding("x", Access::Read), binding("y", Access::ReadWrite)];
        assert_eq!(source.bindings(), bindings);
    }
}
