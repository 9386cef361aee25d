//! Tests of the search for circles on small synthetic crates.

use super::circles::circles;
use super::tree::Sources;

fn find(files: &[(&str, &str)]) -> Vec<String> {
    let sources: Sources = files.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    circles(&sources)
}

/// Asserts that there is exactly one circle, with exactly these dependencies.
#[track_caller]
fn assert_circle(files: &[(&str, &str)], edges: &[(&str, &str)]) {
    let found = find(files);
    assert_eq!(found.len(), 1, "{found:?}");
    let mut lines: Vec<_> = found[0].lines().skip(1).collect();
    for (from, to) in edges {
        let start = format!("    {from} -> {to}  (");
        let position = lines.iter().position(|line| line.starts_with(&start));
        lines.remove(position.unwrap_or_else(|| panic!("no {from} -> {to} in {found:?}")));
    }
    assert!(lines.is_empty(), "further dependencies: {lines:?}");
}

#[track_caller]
fn assert_none(files: &[(&str, &str)]) {
    assert_eq!(find(files), Vec::<String>::new());
}

const AB: (&str, &str) = ("lib.rs", "mod a; mod b; pub use a::A;");

#[test]
fn circle_of_two() {
    let files = [
        AB,
        ("a.rs", "use crate::b::B;\npub struct A;"),
        ("b.rs", "use crate::a::A;\npub struct B(A);"),
    ];
    assert_circle(&files, &[("a.rs", "b.rs"), ("b.rs", "a.rs")]);
    assert!(find(&files)[0].contains("a.rs -> b.rs  (line 1: crate::b::B)"));
}

#[test]
fn circle_of_three() {
    assert_circle(
        &[
            ("lib.rs", "mod a; mod b; mod c; mod d;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "use crate::c::C; use crate::d::D; pub struct B;"),
            ("c.rs", "use crate::a::A; pub struct C;"),
            ("d.rs", "pub struct D;"),
        ],
        &[("a.rs", "b.rs"), ("b.rs", "c.rs"), ("c.rs", "a.rs")],
    );
}

#[test]
fn two_circles_are_reported_separately() {
    let found = find(&[
        ("lib.rs", "mod a; mod b; mod c; mod d;"),
        ("a.rs", "use crate::b::B; use crate::c::C; pub struct A;"),
        ("b.rs", "use crate::a::A; pub struct B;"),
        ("c.rs", "use crate::d::D; pub struct C;"),
        ("d.rs", "use crate::c::C; pub struct D;"),
    ]);
    assert_eq!(found.len(), 2, "{found:?}");
}

#[test]
fn chain() {
    assert_none(&[
        ("lib.rs", "mod a; mod b; mod c; pub use a::A;"),
        ("a.rs", "use crate::{b::B, c::C}; pub struct A;"),
        ("b.rs", "use crate::c::C; pub struct B;"),
        ("c.rs", "use std::fmt; pub struct C;"),
    ]);
}

#[test]
fn nested_folders() {
    let root = ("lib.rs", "mod x; mod y;");
    let folder = ("x/mod.rs", "mod deep; mod other; pub use deep::Deep;");
    let deep = ("x/deep.rs", "mod leaf; pub struct Deep;");
    let leaf = ("x/deep/leaf.rs", "use super::super::other::Other; pub struct Leaf;");
    assert_circle(
        &[
            root,
            folder,
            deep,
            leaf,
            ("x/other.rs", "use crate::y::Y; pub struct Other;"),
            ("y.rs", "use crate::x::deep::leaf::Leaf; pub struct Y;"),
        ],
        &[("x/deep/leaf.rs", "x/other.rs"), ("x/other.rs", "y.rs"), ("y.rs", "x/deep/leaf.rs")],
    );
    assert_none(&[
        root,
        folder,
        deep,
        leaf,
        ("x/other.rs", "pub struct Other;"),
        ("y.rs", "use crate::x::deep::leaf::Leaf; pub struct Y;"),
    ]);
}

#[test]
fn items_of_the_parent() {
    let child = ("a/b.rs", "use super::Job; pub struct B(Job);");
    assert_circle(
        &[("lib.rs", "mod a;"), ("a/mod.rs", "mod b; use b::B; pub struct Job;"), child],
        &[("a/mod.rs", "a/b.rs"), ("a/b.rs", "a/mod.rs")],
    );
    // A parent that only declares and re-exports is transparent.
    assert_none(&[
        ("lib.rs", "mod a; pub use a::*;"),
        ("a/mod.rs", "mod b; mod job; pub use b::B; pub use job::Job;"),
        child,
        ("a/job.rs", "pub struct Job;"),
    ]);
}

#[test]
fn re_exports_lead_to_the_definition() {
    assert_circle(
        &[
            ("lib.rs", "mod a; mod b; pub use a::A as Renamed; pub use b::*;"),
            ("a.rs", "use crate::B; pub struct A;"),
            ("b.rs", "use crate::Renamed; pub struct B(Renamed);"),
        ],
        &[("a.rs", "b.rs"), ("b.rs", "a.rs")],
    );
}

#[test]
fn glob_imports() {
    let b = ("b.rs", "use super::a::*; pub struct B(A);");
    assert_circle(
        &[AB, ("a.rs", "use crate::b::*; pub struct A;"), b],
        &[("a.rs", "b.rs"), ("b.rs", "a.rs")],
    );
    assert_circle(
        &[("lib.rs", "mod a; mod b; pub use b::B;"), ("a.rs", "use super::*; pub struct A;"), b],
        &[("a.rs", "b.rs"), ("b.rs", "a.rs")],
    );
}

#[test]
fn grouped_imports_over_several_lines() {
    let a = "use crate::{\n    b::{\n        inner::Inner,\n        self,\n    },\n    c::C,\n};\n\
             pub struct A;";
    assert_circle(
        &[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", a),
            ("b/mod.rs", "pub mod inner; pub fn f() {}"),
            ("b/inner.rs", "use crate::a::A; pub struct Inner;"),
            ("c.rs", "pub struct C;"),
        ],
        &[("a.rs", "b/inner.rs"), ("b/inner.rs", "a.rs")],
    );
}

#[test]
fn paths_in_expressions() {
    assert_circle(
        &[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b; pub fn f() { println!(\"{}\", b::g(1)) }"),
            ("b.rs", "pub fn g(x: u32) -> u32 { crate::a::f(); x }"),
        ],
        &[("a.rs", "b.rs"), ("b.rs", "a.rs")],
    );
    // The import of a module alone is no dependency on its items.
    assert_none(&[
        ("lib.rs", "mod a; mod b;"),
        ("a/mod.rs", "pub mod c; use crate::b::B; pub struct A(B);"),
        ("a/c.rs", "pub struct C;"),
        ("b.rs", "use crate::a; pub struct B(a::c::C);"),
    ]);
}

#[test]
fn functions_with_the_name_of_their_module() {
    assert_circle(
        &[
            ("lib.rs", "mod a; mod b; pub use b::b;"),
            ("a.rs", "use crate::b; pub fn f() { b() }"),
            ("b.rs", "use crate::a::f; pub fn b() { f() }"),
        ],
        &[("a.rs", "b.rs"), ("b.rs", "a.rs")],
    );
}

#[test]
fn inline_modules_belong_to_their_file() {
    assert_none(&[
        ("lib.rs", "mod a;"),
        ("a.rs", "pub struct A; mod inner { use super::A; pub struct B(A); } use inner::B;"),
    ]);
    assert_circle(
        &[
            AB,
            ("a.rs", "pub struct A; mod inner { use super::super::b::B; }"),
            ("b.rs", "use crate::a::A; pub struct B;"),
        ],
        &[("a.rs", "b.rs"), ("b.rs", "a.rs")],
    );
}

#[test]
fn tests_do_not_count() {
    let b = ("b.rs", "use crate::a::A; pub struct B(A);");
    for a in [
        "pub struct A; #[cfg(test)] mod tests { use crate::b::B; fn f() { crate::b::g() } }",
        "pub struct A; #[cfg(all(test, unix))] mod tests { use crate::b::B; }",
        "#[cfg(test)] use crate::{b::B}; pub struct A;",
        "#[cfg(test)] #[allow(dead_code)] fn f(x: [u8; 2]) { crate::b::g() } pub struct A;",
        "#[cfg(test)] mod helper; mod tests; pub struct A;",
    ] {
        let tests = ("a/tests.rs", "use crate::b::B;");
        assert_none(&[AB, ("a.rs", a), b, ("a/helper.rs", "use crate::b::B;"), tests]);
    }
    let a = "#[cfg(not(test))] use crate::b::B; pub struct A;";
    assert_circle(&[AB, ("a.rs", a), b], &[("a.rs", "b.rs"), ("b.rs", "a.rs")]);
}

#[test]
fn comments_and_literals_are_ignored() {
    let a = "//! [`crate::b::B`]\n/* use crate::b::B; /* nested */ use crate::b::B; */\n\
             pub const T: &str = \"use crate::b::B; \\\" crate::b::B\";\n\
             pub const R: &str = r#\"crate::b::B \" \"#; const C: char = '\"'; const D: char = '\\'';\n\
             pub fn f<'a>(x: &'a str) -> &'a str { x } pub struct A;";
    assert_none(&[AB, ("a.rs", a), ("b.rs", "use crate::a::A; pub struct B;")]);
}

#[test]
fn lines_are_counted() {
    let a = "/* a\nb */ pub struct A;\nconst T: &str = \"c\nd\"; use crate::b::B;";
    let found = find(&[AB, ("a.rs", a), ("b.rs", "use crate::a::A; pub struct B;")]);
    assert!(found[0].contains("a.rs -> b.rs  (line 4: crate::b::B)"), "{found:?}");
}

#[test]
fn words_of_types_are_no_items() {
    let row = "pub use b::Row; pub fn f(name: &str) -> &'static Row { &Row }";
    let c = ("c.rs", "use crate::a::Row; pub fn g(_: &Row) { let _ = 0..crate::a::f; }");
    let b = ("b.rs", "use crate::c::g; pub struct Row;");
    assert_circle(
        &[("lib.rs", "mod a; mod c;"), ("a/mod.rs", &format!("mod b; {row}")), ("a/b.rs", b.1), c],
        &[("a/b.rs", "c.rs"), ("c.rs", "a/b.rs"), ("c.rs", "a/mod.rs"), ("a/mod.rs", "a/b.rs")],
    );
}

#[test]
#[should_panic(expected = "lib.rs declares the module a, but a.rs is missing")]
fn a_missing_file_is_an_error() {
    find(&[("lib.rs", "mod a;")]);
}
