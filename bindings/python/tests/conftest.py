"""Fixtures of all tests, and the report of skips that the whole project shares."""

import os
import pathlib

import pytest

import pelton

ROOT = pathlib.Path(__file__).resolve().parents[3]


def pytest_runtest_logreport(report):
    skipped = os.environ.get("PELTON_SKIPPED")
    if report.skipped and skipped:
        reason = str(report.longrepr[-1]).removeprefix("Skipped: ")
        with open(skipped, "a", encoding="utf-8") as file:
            file.write(f"{report.nodeid}\t{reason}\n")


@pytest.fixture(scope="session")
def model():
    return pelton.load(device="cpu", threads=2)


@pytest.fixture(scope="session")
def tiny():
    """A random Llama whose logits transformers has computed, in float32."""
    path = ROOT / "tests/fixtures/models/llama3/model.gguf"
    return pelton.load(path, device="cpu", threads=2, kv="f32", max_concurrent=4)


@pytest.fixture(scope="session")
def fixtures():
    return ROOT / "tests/fixtures/models"
