"""Imports point down: the contracts of pyproject.toml are kept, and none has an exception."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_contract_is_kept() -> None:
    command = [
        sys.executable,
        "-c",
        "from importlinter.cli import lint_imports_command as run; run()",
        "--no-cache",
    ]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_no_contract_has_exceptions() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]

    assert contracts
    assert not [contract["name"] for contract in contracts if contract.get("ignore_imports")]


def test_the_page_of_the_layers_has_every_layer_from_the_top_down() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [layers] = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    kept = [set(re.findall(r"django_mq\.(\w+)", layer)) for layer in layers]

    page = (ROOT / "docs/contributing.md").read_text()
    written = [line.split(" | ")[0] for line in page.splitlines() if line.startswith("| `django_mq/")]
    assert [set(re.findall(r"django_mq/(\w+)", cell)) for cell in written] == kept
