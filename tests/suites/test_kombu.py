"""Kombu's integration kit for real transports, all of it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.services.processes import tethered

if TYPE_CHECKING:
    from tests.journeys.conftest import Templates

pytestmark = pytest.mark.on("postgresql")

ROOT = Path(__file__).parents[2]
CASES = Path(__file__).with_name("kombu_cases.py")
#: The kit itself sleeps for a quarter of a minute.
SECONDS = 600.0
#: As many cases as the kit of the oldest Kombu we take has; fewer would mean that they were not found.
FEWEST = 40


@pytest.mark.once
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_kombus_integration_kit_passes(
    kind: str, templates: Templates, kombu_tests: Path, request: pytest.FixtureRequest
) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")} | {
        "DJANGO_SETTINGS_MODULE": f"tests.settings.{kind}",
        "DATABASE_URL": templates.fresh(kind),
        "PYTHONPATH": f"{kombu_tests}{os.pathsep}{ROOT}",
    }
    environment.pop("REDIS_URL", None)  # SQLite stands alone
    if kind == "postgresql":
        environment["REDIS_URL"] = request.getfixturevalue("redis_url")

    # No settings of ours: Kombu's tests know nothing of our warnings, and its marks are not ours.
    plain = ["-c", os.devnull, f"--rootdir={kombu_tests}", "-p", "no:cacheprovider", "--noconftest"]
    done = subprocess.run(
        tethered(
            [
                sys.executable,
                "-m",
                "pytest",
                *plain,
                "-p",
                "no:randomly",
                "-p",
                "no:django",
                "--tb=short",
                "-q",
                str(CASES),
            ],
            death_signal=signal.SIGKILL,
        ),
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )

    assert done.returncode == 0, done.stdout[:3000] + done.stdout[-5000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed, done.stdout
    assert int(passed[1]) >= FEWEST
    assert "skipped" not in done.stdout
