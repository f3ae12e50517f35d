"""What only the processes themselves may know does not stand in the process list."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from django_mq.errors import SparkUnavailable
from django_mq.pipeline import preflight
from tests.conftest import skip_or_fail
from tests.services.server import UnavailableError

URL = "postgresql://shop:hunter2@db.example/shop"
PROGRAM = """
import json, os, sys
import psutil
from django_mq.pipeline.session import open_session

spark = open_session(master="local[1]")
told = spark.sparkContext.parallelize([0], 1).map(lambda _: os.environ.get("DATABASE_URL")).collect()
processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
lines = [" ".join(process.as_dict(["cmdline"])["cmdline"] or ()) for process in processes]
configured = [value for _, value in spark.sparkContext.getConf().getAll()]
spark.stop()
print(json.dumps([told, lines, configured]))
"""


@pytest.mark.once
def test_the_address_of_the_database_reaches_local_executors_and_not_the_process_list() -> None:
    try:
        preflight.check()
    except SparkUnavailable as missing:
        skip_or_fail(UnavailableError(str(missing)))
    known = {"DATABASE_URL": URL, "DJANGO_SETTINGS_MODULE": "tests.settings.sqlite"}
    path = {"PYTHONPATH": str(Path(__file__).parents[2])}

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **known, **path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert done.returncode == 0, done.stderr[-5000:]
    told, lines, configured = json.loads(done.stdout.splitlines()[-1])
    assert told == [URL]
    assert any("org.apache.spark" in line for line in lines)
    assert not [text for text in lines + configured if "hunter2" in text]
