"""List the public items of the crate pelton in docs/api.txt, from the JSON of rustdoc.

    python3 crates/engine/public_api.py           # writes the list
    python3 crates/engine/public_api.py --check   # compares it

The form of the JSON is that of Rust 1.95. Items that only the feature `unstable` has are marked with the word; all
others are stable: they follow semantic versioning.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIST = ROOT / "docs/api.txt"
HEAD = """\
The public items of the crate pelton, without the feature gpu, as crates/engine/public_api.py writes them.
Lines that begin with "unstable" need the feature of that name and change in any version. All others are stable.
"""


def rustdoc(*features):
    """The index of all items."""
    target = ROOT / "target/api"
    options = ["--no-default-features", "--features", ",".join(features)] if features else ["--no-default-features"]
    subprocess.run(
        ["cargo", "rustdoc", "--quiet", "--locked", "--package", "pelton", "--lib", "--target-dir", target,
         *options, "--", "-Z", "unstable-options", "--output-format", "json"],
        # the JSON of rustdoc is unstable
        cwd=ROOT, check=True, env={**os.environ, "RUSTC_BOOTSTRAP": "1"},
    )
    return json.loads((target / "doc/pelton.json").read_text())


def arguments(args):
    """`<A, B>` of a path."""
    if not args or "angle_bracketed" not in args:
        if args and "parenthesized" in args:
            inner = args["parenthesized"]
            out = f" -> {kind(inner['output'])}" if inner.get("output") else ""
            return f"({', '.join(map(kind, inner['inputs']))}){out}"
        return ""
    args = args["angle_bracketed"]
    shown = []
    for arg in args["args"]:
        if "type" in arg:
            shown.append(kind(arg["type"]))
        elif "lifetime" in arg:
            shown.append(arg["lifetime"])
        elif "const" in arg:
            shown.append(arg["const"]["expr"])
    for bound in args.get("constraints", []):
        equal = bound["binding"].get("equality")
        if equal and "type" in equal:
            shown.append(f"{bound['name']} = {kind(equal['type'])}")
    return f"<{', '.join(shown)}>" if shown else ""


def path(value):
    return value.get("path", value.get("name", "")).split("::")[-1] + arguments(value.get("args"))


def bounds(all):
    shown = []
    for bound in all:
        if "trait_bound" in bound:
            shown.append(path(bound["trait_bound"]["trait"]))
        elif "outlives" in bound:
            shown.append(bound["outlives"])
    return " + ".join(shown)


def kind(value):
    """A type as it is written."""
    if isinstance(value, str):
        return value
    (form, inner), = value.items()
    match form:
        case "resolved_path":
            return path(inner)
        case "generic" | "primitive":
            return inner
        case "borrowed_ref":
            lifetime = f"{inner['lifetime']} " if inner["lifetime"] else ""
            return f"&{lifetime}{'mut ' if inner['is_mutable'] else ''}{kind(inner['type'])}"
        case "slice":
            return f"[{kind(inner)}]"
        case "array":
            return f"[{kind(inner['type'])}; {inner['len']}]"
        case "tuple":
            return f"({', '.join(map(kind, inner))})"
        case "impl_trait":
            return f"impl {bounds(inner)}"
        case "dyn_trait":
            return "dyn " + " + ".join(path(one["trait"]) for one in inner["traits"])
        case "qualified_path":
            return f"{kind(inner['self_type'])}::{inner['name']}"
        case "function_pointer":
            inputs = ", ".join(kind(one) for _, one in inner["sig"]["inputs"])
            out = f" -> {kind(inner['sig']['output'])}" if inner["sig"]["output"] else ""
            return f"fn({inputs}){out}"
    return form


def function(name, inner):
    def argument(name, of):
        shown = kind(of)
        if name != "self":
            return f"{name}: {shown}"
        return {"Self": "self", "&Self": "&self", "&mut Self": "&mut self"}.get(shown, f"self: {shown}")

    inputs = ", ".join(argument(name, of) for name, of in inner["sig"]["inputs"])
    out = f" -> {kind(inner['sig']['output'])}" if inner["sig"]["output"] else ""
    return f"fn {name}({inputs}){out}"


def non_exhaustive(item):
    return "" if not any("non_exhaustive" in json.dumps(attr) for attr in item["attrs"]) else " #[non_exhaustive]"


class Api:
    def __init__(self, doc):
        self.index = doc["index"]
        self.lines = set()
        # the traits of each type
        self.traits = {}
        self.seen = set()

    def item(self, id):
        return self.index.get(str(id))

    def add(self, prefix, id, name=None):
        item = self.item(id)
        if item is None:
            return
        name = name or item["name"]
        (form, inner), = item["inner"].items()
        if form == "use":
            self.use(prefix, inner)
            return
        here = f"{prefix}::{name}" if prefix else name
        if (here, id) in self.seen:
            return
        self.seen.add((here, id))
        match form:
            case "module":
                for child in inner["items"]:
                    if self.visible(child):
                        self.add(here, child)
            case "struct":
                self.lines.add(f"struct {here}{non_exhaustive(item)}")
                for field in self.fields(inner):
                    of = self.item(field)
                    if of and of["visibility"] == "public":
                        self.lines.add(f"field {here}::{of['name']}: {kind(of['inner']['struct_field'])}")
                self.impls(here, inner)
            case "enum":
                self.lines.add(f"enum {here}{non_exhaustive(item)}")
                for variant in inner["variants"]:
                    self.lines.add(f"variant {here}::{self.variant(variant)}")
                self.impls(here, inner)
            case "function":
                self.lines.add(function(here, inner))
            case "trait":
                self.lines.add(f"trait {here}")
                for child in inner["items"]:
                    of = self.item(child)
                    if of and "function" in of["inner"]:
                        self.lines.add(function(f"{here}::{of['name']}", of["inner"]["function"]))
            case "constant":
                self.lines.add(f"const {here}: {kind(inner['type'])}")
            case "type_alias":
                self.lines.add(f"type {here} = {kind(inner['type'])}")

    def use(self, prefix, inner):
        id, target = inner["id"], inner["source"]
        if id is not None and self.item(id) is not None:
            self.add(prefix, id, None if inner["is_glob"] else inner["name"])
        else:
            self.lines.add(f"use {prefix}::{inner['name']} = {target}")

    def visible(self, id):
        item = self.item(id)
        return item is not None and item["visibility"] in ("public", "default")

    def fields(self, inner):
        shape = inner["kind"]
        if isinstance(shape, dict) and "plain" in shape:
            return shape["plain"]["fields"]
        return [field for field in shape["tuple"] if field is not None] if isinstance(shape, dict) and "tuple" in shape else []

    def variant(self, id):
        item = self.item(id)
        shape = item["inner"]["variant"]["kind"]
        of = lambda field: kind(self.item(field)["inner"]["struct_field"])
        if isinstance(shape, str):
            return item["name"]
        if "tuple" in shape:
            return f"{item['name']}({', '.join(of(field) for field in shape['tuple'] if field is not None)})"
        fields = (f"{self.item(field)['name']}: {of(field)}" for field in shape["struct"]["fields"])
        return f"{item['name']} {{ {', '.join(fields)} }}"

    def impls(self, here, inner):
        for id in inner["impls"]:
            item = self.item(id)
            if item is None:
                continue
            block = item["inner"]["impl"]
            # conversions from a type into another are the other's
            if block["is_synthetic"] or block.get("blanket_impl") or kind(block["for"]) != here.split("::")[-1]:
                continue
            if block["trait"] is not None:
                self.traits.setdefault(here, set()).add(path(block["trait"]))
                continue
            for child in block["items"]:
                of = self.item(child)
                if of is None or of["visibility"] != "public":
                    continue
                (form, value), = of["inner"].items()
                if form == "function":
                    self.lines.add(function(f"{here}::{of['name']}", value))
                elif form == "assoc_const":
                    self.lines.add(f"const {here}::{of['name']}: {kind(value['type'])}")


def lines(doc):
    api = Api(doc)
    api.add("", doc["root"])
    for owner, traits in api.traits.items():
        known = sorted(traits - {"StructuralPartialEq"})
        if known:
            api.lines.add(f"impl {owner}: {', '.join(known)}")
    return api.lines


def main():
    stable = lines(rustdoc())
    everything = lines(rustdoc("unstable"))
    # sorted by the path, the second word: each type, its traits and what belongs to it
    kinds = ["use", "struct", "enum", "trait", "impl", "variant", "field", "const", "type", "fn"]
    order = lambda line: (re.split(r"[^\w:]", line.split(" ")[1])[0].strip(":").split("::"), kinds.index(line.split(" ")[0]))
    marked = [(order(line), line if line in stable else f"unstable {line}") for line in everything]
    text = HEAD + "\n" + "".join(f"{line}\n" for _, line in sorted(marked))
    if "--check" not in sys.argv:
        LIST.write_text(text)
    elif LIST.read_text() != text:
        sys.exit("docs/api.txt is not the public API: python3 crates/engine/public_api.py writes it")


main()
