"""The example tests itself."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.example_project.conftest import EXAMPLE, ROOT

if TYPE_CHECKING:
    from pathlib import Path


def test_the_tests_of_the_example_pass(tmp_path: Path) -> None:
    outside = {name: value for name, value in os.environ.items() if not name.endswith("_URL")}
    outside.pop("DJANGO_SETTINGS_MODULE", None)

    done = subprocess.run(
        [sys.executable, str(EXAMPLE / "manage.py"), "test", "library"],
        env=outside | {"LIBRARY_VAR": str(tmp_path), "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "Ran 4 tests" in done.stderr
