"""The units and manifests of the page on deployment are what systemd and Kubernetes take."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from django.core.management import load_command_class

from django_mq.delivery.queues import declare
from django_mq.stores.registry import shared_store
from tests.commands.conftest import shop  # noqa: F401 - a fixture
from tests.docs.pages import DOCS, blocks
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.commands.conftest import Shop

PAGE = DOCS / "how-to/operations/deploy.md"


def texts(language: str, word: str) -> list[str]:
    return [block.text for block in blocks(PAGE, language) if word in block.text]


def options(words: list[str]) -> dict[str, Any]:
    """Return the options of a command line of mq_worker that a page prints."""
    command = load_command_class("django_mq", "mq_worker")
    return vars(command.create_parser("manage.py", "mq_worker").parse_args(words))


def containers() -> list[dict[str, Any]]:
    [manifest] = [yaml.safe_load(text) for text in texts("yaml", "kind: Deployment")]
    assert manifest["spec"]["selector"]["matchLabels"] == manifest["spec"]["template"]["metadata"]["labels"]
    return [manifest["spec"]["template"]["spec"]]


def test_each_command_has_less_time_than_its_manager_gives_it() -> None:
    for unit in texts("ini", "mq_worker"):
        [line] = re.findall(r"^ExecStart=\S+ manage.py mq_worker (.*)$", unit, re.MULTILINE)
        [patience] = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
        assert options(shlex.split(line))["stop_seconds"] + 10 < int(patience)
    [pod] = containers()
    [container] = pod["containers"]
    assert options(container["args"])["stop_seconds"] + 10 < pod["terminationGracePeriodSeconds"]
    for services in (yaml.safe_load(text)["services"] for text in texts("yaml", "services:")):
        assert options(services["worker"]["command"][3:])


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    for number, text in enumerate(texts("ini", "[Service]")):
        unit = tmp_path / f"shop{number}{'@' if '%i' in text else ''}.service"
        here = re.sub(r"/srv/shop/.venv/bin/\w+", sys.executable, text).replace("/srv/shop", str(tmp_path))
        unit.write_text(here.replace("User=shop\n", "User=root\n"))
        name = str(unit).replace("@", "@1")
        if name != str(unit):
            shutil.copy(unit, name)
        done = subprocess.run([analyze, "verify", "--man=no", name], capture_output=True, text=True, check=False)
        assert (done.returncode, [line for line in done.stderr.splitlines() if str(unit.stem) in line]) == (0, [])


@pytest.mark.once
@pytest.mark.parametrize(
    "committed_database",
    [pytest.param("default", marks=pytest.mark.django_db(databases=["default"], transaction=True))],
    indirect=True,
)
def test_the_probes_of_the_manifest_see_the_worker(
    committed_database: str,
    shop: Shop,  # noqa: F811 - the fixture
    tmp_path: Path,
) -> None:
    declare(shared_store(committed_database), "orders")
    [container] = containers()[0]["containers"]
    printed = "/tmp/probes"

    def run(probe: str) -> bool:
        words = [word.replace(printed, str(tmp_path)) for word in container[probe]["exec"]["command"]]
        return subprocess.run(words, env=os.environ, check=False, stderr=subprocess.DEVNULL).returncode == 0

    probes = ("startupProbe", "livenessProbe", "readinessProbe")
    assert not any(map(run, probes))
    worker = shop.start("--queues=orders", *(word.replace(printed, str(tmp_path)) for word in container["args"]))
    for probe in probes:
        wait_until(lambda probe=probe: run(probe), probe)
    worker.terminate()
    said, _ = worker.communicate(timeout=PATIENCE_SECONDS)

    assert worker.returncode == 0, said
    assert not any(map(run, probes))
