"""The description on a package index has no link into the repository."""

from __future__ import annotations

import re
import runpy

import pytest

from tests.docs.pages import README, ROOT

pytest.importorskip("hatchling")


def test_the_description_of_the_package_has_no_relative_link() -> None:
    without_links = runpy.run_path(str(ROOT / ".ci/readme_hook.py"))["without_links"]

    text = without_links(README.read_text(encoding="utf-8"))

    assert "Guarantees (`docs/explanation/guarantees.md`)" in text
    assert re.findall(r"\]\((?!https?:|#)[^)]+\)", text) == []
