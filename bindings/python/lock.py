"""Checks that the lock file here has the versions of the project's own: both are built from the same crates."""

import pathlib
import sys
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
# what the other workspace does not have
OWN = {
    "pelton-python",
    "pyo3",
    "pyo3-build-config",
    "pyo3-ffi",
    "pyo3-macros",
    "pyo3-macros-backend",
    "target-lexicon",
}


def packages(path):
    found = tomllib.loads(path.read_text())["package"]
    return {(one["name"], one["version"], one.get("checksum")) for one in found}


others = packages(HERE.parents[1] / "Cargo.lock")
wrong = sorted(one for one in packages(HERE / "Cargo.lock") - others if one[0] not in OWN)
for name, version, _ in wrong:
    print(f"bindings/python/Cargo.lock has {name} {version}, expected that of Cargo.lock")
if wrong:
    sys.exit("copy Cargo.lock to bindings/python, and run cargo metadata there")
