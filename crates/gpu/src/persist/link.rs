//! The linker of persistent kernels: kernels that ran as dispatches one after the other become the
//! phases of one kernel, with a grid barrier between each two.
//!
//! The text of the kernels is not changed but for names: every phase computes what its dispatch
//! computes, bit for bit. The phases share
//!
//! - buffers. A buffer that one phase writes and another reads is one variable for both,
//!   `@coherent`. Floats are vectors of four; a phase that has them as single floats gets the
//!   vectors' elements. A cache has one type in all phases;
//! - workgroup memory. Variables of one type are one variable of the greatest length, since no
//!   phase expects what an earlier one left there.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

use minijinja::{Value, context};

use crate::{
    device::KernelSource,
    kernels::{matvec::Stage, template},
    lower::dispatch::Bound,
    persist::wgsl::{Declarations, Shared, closing, declarations, is_space, is_word},
};

/// A kernel as a phase: its WGSL, its buffers in the order of its bindings, and its workgroups.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phase<'a> {
    pub(super) source: &'a str,
    pub(super) buffers: &'a [Bound],
    pub(super) groups: [u32; 3],
}

/// The launch of a persistent kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Launch {
    /// Threads of a workgroup.
    pub(super) threads: usize,
    /// Workgroups, which must all be resident at once.
    pub(super) groups: usize,
    /// Turns of a spin at most.
    pub(super) turns: u32,
    /// Weights that lanes of products prefetch.
    pub(super) stage: Stage,
    /// Whether attention loads keys before it waits for the phase before.
    pub(super) early: bool,
}

/// A persistent kernel.
#[derive(Debug)]
pub(super) struct Linked {
    pub(super) source: KernelSource,
    /// The buffers in the order of the bindings, without the words of the barrier, which come last.
    pub(super) buffers: Vec<Bound>,
    /// Bytes of workgroup memory.
    pub(super) shared: usize,
}

const FLOATS: &str = "array<f32>";
const FOURS: &str = "array<vec4<f32>>";
/// The function of `persistent.wgsl` by which a phase waits for those before, if it does so itself.
const WAIT: &str = "wait_for_inputs";

/// The new name of a name of a phase.
#[derive(Clone, Debug)]
struct Renamed {
    to: String,
    /// Whether elements are those of vectors of four.
    of_fours: bool,
}

/// A buffer of all phases.
struct Joined<'a> {
    bound: &'a Bound,
    /// The phases that use it, and its name and type in them.
    uses: Vec<(usize, &'a str, &'a str)>,
    writes: bool,
}

/// Whether a kernel can be a phase; the error says why not.
pub(super) fn check(source: &str, launch: &Launch) -> Result<(), String> {
    let found = declarations(source)?;
    arguments(&found, [1; 3])?;
    match found.threads == launch.threads {
        true => Ok(()),
        false => Err(format!("{} threads, expected {}", found.threads, launch.threads)),
    }
}

/// The arguments of a phase's function: the values of the builtins of its entry point.
fn arguments(found: &Declarations<'_>, groups: [u32; 3]) -> Result<String, String> {
    let [x, y, z] = groups;
    let argument = |&(builtin, _): &(&str, &str)| match builtin {
        "workgroup_id" => Ok("group".to_owned()),
        "num_workgroups" => Ok(format!("vec3({x}u, {y}u, {z}u)")),
        "subgroup_id" => Ok("subgroup".to_owned()),
        "num_subgroups" => Ok("subgroups".to_owned()),
        "subgroup_invocation_id" => Ok("lane".to_owned()),
        "subgroup_size" => Ok("width".to_owned()),
        "local_invocation_index" => Ok("thread".to_owned()),
        other => Err(format!("the builtin {other}")),
    };
    let all: Result<Vec<String>, String> = found.parameters.iter().map(argument).collect();
    Ok(all?.join(", "))
}

/// Links phases. The error says what cannot be linked.
pub(super) fn link(phases: &[Phase<'_>], launch: &Launch) -> Result<Linked, String> {
    let parsed: Vec<Declarations<'_>> =
        phases.iter().map(|phase| declarations(phase.source)).collect::<Result<_, _>>()?;
    let mut names: Vec<HashMap<&str, Renamed>> = parsed.iter().enumerate().map(own_names).collect();
    let buffers = buffers_of(phases, &parsed)?;
    let mut text = String::new();
    let mut bound = Vec::new();
    for joined in &buffers {
        declare_buffer(joined, &parsed, &mut names, &mut bound, &mut text)?;
    }
    let shared = declare_shared(&parsed, &mut names, &mut text);
    let mut calls = Vec::with_capacity(phases.len());
    for (p, ((phase, found), names)) in phases.iter().zip(&parsed).zip(&names).enumerate() {
        for item in &found.others {
            text.push_str(&rewritten(item, names, item[0] == "struct"));
            text.push('\n');
        }
        let parameters = found.parameters.iter().map(|(builtin, name)| {
            let ty = if builtin.contains("workgroup") { "vec3<u32>" } else { "u32" };
            format!("{name}: {ty}")
        });
        let parameters: Vec<String> = parameters.collect();
        let body = rewritten(&found.body, names, false);
        text.push_str(&format!("fn phase_{p}({}) {body}\n", parameters.join(", ")));
        calls.push(call(found, phase.groups, launch)?);
    }
    let parameters = context! {
        declarations => text,
        phases => calls,
        threads => launch.threads,
        groups => launch.groups,
        turns => launch.turns,
    };
    let source =
        template::render("persistent.wgsl", parameters).map_err(|error| error.to_string())?;
    Ok(Linked { source, buffers: bound, shared })
}

/// The parameters of a phase's call in `persistent.wgsl`.
fn call(found: &Declarations<'_>, groups: [u32; 3], launch: &Launch) -> Result<Value, String> {
    let [x, y, z] = groups;
    let count = x as usize * y as usize * z as usize;
    let arguments = arguments(found, groups)?;
    let waits = found.used.contains(WAIT);
    Ok(context! { x, y, count, arguments, waits, several => count > launch.groups })
}

/// New names of a phase's declarations, by their old ones.
fn own_names<'a>((p, found): (usize, &Declarations<'a>)) -> HashMap<&'a str, Renamed> {
    let renamed = |name| Renamed { to: format!("{name}_p{p}"), of_fours: false };
    found.names.iter().map(|&name| (name, renamed(name))).collect()
}

/// The buffers that the phases use, in the order of their first use.
fn buffers_of<'a>(
    phases: &[Phase<'a>],
    parsed: &'a [Declarations<'a>],
) -> Result<Vec<Joined<'a>>, String> {
    let mut all: Vec<Joined<'a>> = Vec::new();
    for (p, (phase, found)) in phases.iter().zip(parsed).enumerate() {
        for storage in &found.storage {
            if !found.used.contains(storage.name) {
                continue;
            }
            let bound = phase.buffers.get(storage.binding).ok_or("a binding without a buffer")?;
            let known = all.iter_mut().find(|joined| joined.bound.same(bound));
            let joined = match known {
                Some(joined) => joined,
                None => {
                    all.push(Joined { bound, uses: Vec::new(), writes: false });
                    all.last_mut().ok_or("no buffer")?
                }
            };
            joined.uses.push((p, storage.name, &storage.ty));
            joined.writes |= storage.writes;
        }
    }
    // a written buffer is bound once: two bindings that overlap would be two variables of one
    // memory
    let written = all.iter().filter(|joined| joined.writes);
    for written in written {
        let overlaps = |other: &&Joined<'_>| {
            other.bound.buffer == written.bound.buffer && other.bound.offset != written.bound.offset
        };
        if all.iter().any(|other| overlaps(&other)) {
            return Err("a part of a buffer that is written".to_owned());
        }
    }
    Ok(all)
}

/// Declares a buffer, as one variable or, if it is only read, one for each type.
fn declare_buffer<'a>(
    joined: &Joined<'a>,
    parsed: &[Declarations<'a>],
    names: &mut [HashMap<&'a str, Renamed>],
    all: &mut Vec<Bound>,
    text: &mut String,
) -> Result<(), String> {
    let bound = joined.bound;
    let mut phases: Vec<usize> = joined.uses.iter().map(|(p, ..)| *p).collect();
    phases.dedup();
    let exchanged = joined.writes && phases.len() > 1;
    if joined.writes && phases.len() < joined.uses.len() {
        return Err("a buffer that a kernel has twice".to_owned());
    }
    let mut types: Vec<&str> = joined.uses.iter().map(|(.., ty)| *ty).collect();
    types.sort_unstable();
    types.dedup();
    let of_floats = types.iter().all(|ty| *ty == FLOATS || *ty == FOURS);
    if exchanged && (types.len() > 1 || of_floats) {
        if !of_floats || !bound.len().is_multiple_of(16) {
            return Err(format!("an exchange of {types:?}, {} bytes", bound.len()));
        }
        types = vec![FOURS];
    }
    for ty in types {
        let to = format!("buffer_{}", all.len());
        let access = if joined.writes { "read_write" } else { "read" };
        let coherent = if exchanged { "@coherent " } else { "" };
        let of_struct = parsed
            .iter()
            .any(|found| ty.split(['<', '>', ',']).any(|part| found.structs.contains(part)));
        if of_struct {
            return Err(format!("a buffer of {ty}"));
        }
        text.push_str(&format!("{coherent}var<storage, {access}> {to}: {ty};\n"));
        for &(p, name, its) in joined.uses.iter().filter(|(_, _, its)| exchanged || *its == ty) {
            let of_fours = exchanged && its == FLOATS;
            names[p].insert(name, Renamed { to: to.clone(), of_fours });
        }
        all.push(bound.clone());
    }
    Ok(())
}

/// Declares workgroup memory; returns its bytes. The variables of a phase with elements of one
/// type, the longest first, are those of every other phase.
fn declare_shared<'a>(
    parsed: &[Declarations<'a>],
    names: &mut [HashMap<&'a str, Renamed>],
    text: &mut String,
) -> usize {
    /// Type of an element, place among the variables of that type, and whether it is an array.
    type Key = (String, usize, bool);
    let mut all: BTreeMap<Key, usize> = BTreeMap::new();
    let mut keys: Vec<(usize, &'a str, Key)> = Vec::new();
    for (p, found) in parsed.iter().enumerate() {
        let mut own: Vec<&Shared<'a>> = found.shared.iter().collect();
        own.sort_by_key(|shared| Reverse(shared.len));
        let mut places: HashMap<(String, bool), usize> = HashMap::new();
        for shared in own {
            // a struct's name differs by phase
            let element = match found.structs.contains(shared.element.as_str()) {
                true => format!("{}_p{p}", shared.element),
                false => shared.element.clone(),
            };
            let place = places.entry((element.clone(), shared.len.is_some())).or_default();
            let key = (element, *place, shared.len.is_some());
            *place += 1;
            let len = all.entry(key.clone()).or_default();
            *len = (*len).max(shared.len.unwrap_or(1));
            keys.push((p, shared.name, key));
        }
    }
    let mut bytes = 0;
    for (i, (key, len)) in all.iter().enumerate() {
        let (element, _, array) = key;
        let to = format!("shared_{i}");
        let ty = if *array { format!("array<{element}, {len}>") } else { element.clone() };
        text.push_str(&format!("var<workgroup> {to}: {ty};\n"));
        let size = match element.as_str() {
            "f32" | "u32" | "i32" => 4,
            two if two.starts_with("vec2") => 8,
            _ => 16,
        };
        bytes += (size * len).next_multiple_of(16);
        for (p, name, _) in keys.iter().filter(|(.., its)| its == key) {
            names[*p].insert(name, Renamed { to: to.clone(), of_fours: false });
        }
    }
    bytes
}

/// The text of lexemes with new names. Members of structs keep theirs.
fn rewritten(lexemes: &[&str], names: &HashMap<&str, Renamed>, of_struct: bool) -> String {
    let mut text = String::new();
    let mut before = "";
    let mut at = 0;
    while let Some(&token) = lexemes.get(at) {
        at += 1;
        if is_space(token) {
            text.push_str(token);
            continue;
        }
        let next = (at..lexemes.len()).find(|&i| !is_space(lexemes[i]));
        let sign = next.map_or("", |i| lexemes[i]);
        let member = before == "." || (of_struct && sign == ":");
        before = token;
        let renamed = names.get(token).filter(|_| is_word(token) && !member);
        let Some(Renamed { to, of_fours }) = renamed else {
            text.push_str(token);
            continue;
        };
        text.push_str(to);
        let open = next.filter(|_| *of_fours && sign == "[");
        if let Some((open, end)) = open.and_then(|i| closing(lexemes, i).map(|end| (i, end))) {
            let index = rewritten(&lexemes[open + 1..end], names, false);
            text.push_str(&format!("[({index}) / 4u][({index}) % 4u]"));
            before = "]";
            at = end + 1;
        }
    }
    text
}
