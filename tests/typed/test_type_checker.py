"""Mypy sees what a handler is called with, and what it publishes: the samples have the errors that they name."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SAMPLES = Path(__file__).parent / "samples"


@pytest.mark.once
def test_the_type_checker_reports_the_errors_of_the_samples_and_no_others(tmp_path: Path) -> None:
    # Without the plugin and the settings of this project, as in an application.
    config = tmp_path / "mypy.ini"
    config.write_text("[mypy]\nstrict = true\nfollow_imports = silent\n")
    command = [sys.executable, "-m", "mypy", "--config-file", str(config), "--cache-dir", str(tmp_path / "cache")]

    done = subprocess.run([*command, str(SAMPLES)], cwd=ROOT, capture_output=True, text=True, check=False)

    line = re.compile(r"^tests/typed/samples/(\w+\.py):(\d+): error: .*\[([\w-]+)\]$", re.MULTILINE)
    reported = line.findall(done.stdout)
    expected = [
        (path.name, str(number), code)
        for path in sorted(SAMPLES.glob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        for code in re.findall(r"# error: ([\w-]+)$", line)
    ]
    assert sorted(reported) == sorted(expected), done.stdout + done.stderr
    assert expected
