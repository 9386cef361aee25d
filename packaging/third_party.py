#!/usr/bin/env python3
"""Prints the licences of all crates that the program is linked with, each text once.

usage: packaging/third_party.py TARGET > THIRD-PARTY.txt
"""

import json
import pathlib
import subprocess
import sys

NAMES = ("license", "licence", "copying", "copyright", "notice", "unlicense")


def linked(metadata):
    """The packages from other sources that `pelton-cli` reaches without tests and build scripts."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    left = [key for key, package in packages.items() if package["name"] == "pelton-cli"]
    seen = set(left)
    while left:
        for dependency in nodes[left.pop()]["deps"]:
            key = dependency["pkg"]
            if key not in seen and any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                seen.add(key)
                left.append(key)
    found = [packages[key] for key in seen if packages[key]["source"]]
    return sorted(found, key=lambda package: (package["name"], package["version"]))


def texts(package):
    """The licence files of a package."""
    folder = pathlib.Path(package["manifest_path"]).parent
    files = [file for file in sorted(folder.iterdir()) if file.name.lower().startswith(NAMES)]
    return [file.read_text("utf-8", "replace").strip() for file in files if file.is_file()]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    command = ["cargo", "metadata", "--format-version=1", "--locked", f"--filter-platform={sys.argv[1]}"]
    packages = linked(json.loads(subprocess.check_output(command)))
    print("Pelton is linked with the standard library of Rust (MIT OR Apache-2.0) and with these crates:\n")
    users = {}
    for package in packages:
        name = f"{package['name']} {package['version']}"
        print(f"{name}: {package['license'] or 'see its text'}")
        for text in texts(package):
            users.setdefault(text, []).append(name)
    for text, names in users.items():
        print(f"\n{'=' * 80}\n{', '.join(names)}\n\n{text}")


main()
