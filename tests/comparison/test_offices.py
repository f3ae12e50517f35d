"""Both offices do the same, and that for django_mq has no more lines."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import textwrap
import tokenize
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import psycopg
import pytest

from tests.conftest import url_or_skip
from tests.docs.pages import DOCS, blocks
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.services.environment import Services

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = DOCS / "explanation" / "coming-from-celery.md"
CELERY, DJANGO_MQ = "with_celery", "with_django_mq"
#: The worker of each, and what it prints when it is ready.
WORKERS = {
    CELERY: (("celery", "-A", "office", "worker", "-c", "8", "--loglevel", "info"), " ready."),
    DJANGO_MQ: (("django", "mq_worker", "--threads", "8"), "consumes"),
}
#: Tokens of a file that are no code.
NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}


@pytest.fixture(params=WORKERS)
def version(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def environment(
    request: pytest.FixtureRequest, version: str, services: Services, tmp_path: Path
) -> Iterator[dict[str, str]]:
    """The environment of the office's processes, with a database and, for Celery, a Redis of its own."""
    redis = {"REDIS_URL": request.getfixturevalue("redis_server").url} if version == CELERY else {}
    server, name = url_or_skip(services, "postgresql"), f"office_{uuid4().hex[:8]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "office.settings",
            "DATABASE_URL": f"{server.rpartition('/')[0]}/{name}",
            **redis,
            "OFFICE_DIRECTORY": str(tmp_path),
            "PYTHONPATH": os.pathsep.join([str(HERE / version), str(ROOT)]),
        }
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def run(environment: dict[str, str], *module: str) -> str:
    """Run a module in a process of the office; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", *module],
        env=environment,
        cwd=environment["OFFICE_DIRECTORY"],
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE_SECONDS,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


@contextmanager
def worker(environment: dict[str, str], version: str) -> Iterator[None]:
    """Run the worker of the office; a failure shows what it printed."""
    module, ready = WORKERS[version]
    log = Path(environment["OFFICE_DIRECTORY"]) / "worker.log"
    with (
        log.open("w") as file,
        subprocess.Popen(
            [sys.executable, "-m", *module], env=environment, cwd=log.parent, stdout=file, stderr=file
        ) as process,
    ):
        try:
            wait_until(lambda: ready in log.read_text(), "the worker")
            yield
        except AssertionError as error:
            error.add_note(log.read_text())
            raise
        finally:
            process.terminate()


@pytest.mark.once
def test_both_offices_pass_one_test_file(environment: dict[str, str], version: str) -> None:
    run(environment, "django", "migrate", "--run-syncdb", "--verbosity", "0")
    with worker(environment, version):
        run(environment, "pytest", "-q", "-n", "0", str(HERE / "acceptance.py"))


@pytest.mark.once
def test_the_tests_of_both_offices_pass(environment: dict[str, str], version: str) -> None:
    assert "OK" in run(environment, "django", "test", "office")


def lines(path: Path) -> int:
    """Count the lines with code: no blank lines, comments or docstrings."""
    tokens = list(tokenize.generate_tokens(io.StringIO(path.read_text()).readline))
    code: set[int] = set()
    begins = True
    for token in tokens:
        if token.type in NO_CODE:
            begins = begins or token.type == tokenize.NEWLINE
            continue
        if not (begins and token.type == tokenize.STRING):
            code.update(range(token.start[0], token.end[0] + 1))
        begins = False
    return len(code)


def test_code_is_counted_without_blank_lines_comments_and_docstrings(tmp_path: Path) -> None:
    path = tmp_path / "example.py"
    path.write_text(
        '"""A docstring\nof two lines."""\n\n# A comment.\ndef f(\n    x,\n):\n    """One."""\n    return x\n'
    )

    assert lines(path) == 4


def counted(version: str) -> dict[str, int]:
    """Count the lines of each file of an office."""
    return {path.name: lines(path) for path in sorted((HERE / version / "office").glob("*.py"))}


def test_the_office_for_django_mq_has_no_more_lines() -> None:
    ours, theirs = counted(DJANGO_MQ), counted(CELERY)

    assert sum(ours.values()) <= sum(theirs.values()), (ours, theirs)
    assert sum(ours.values()) - ours["tests.py"] <= sum(theirs.values()) - theirs["tests.py"], (ours, theirs)


def test_the_page_shows_both_offices_as_they_are() -> None:
    ours, theirs = counted(DJANGO_MQ), counted(CELERY)
    files = {
        "settings and Celery's app": ("__init__.py", "celery.py", "settings.py"),
        "models": ("models.py",),
        "what a clerk can do": ("desk.py",),
        "what runs in the background": ("tasks.py", "consumers.py"),
        "tests of the application": ("tests.py",),
        "all": (*theirs, "consumers.py"),
    }
    page = PAGE.read_text(encoding="utf-8")

    for name, of_row in files.items():
        celery, django_mq = (sum(each.get(file, 0) for file in of_row) for each in (theirs, ours))
        assert f"| {name} | {celery} | {django_mq} |" in page
    written = [path.read_text() for version in WORKERS for path in (HERE / version / "office").glob("*.py")]
    for block in blocks(PAGE, "py"):
        assert any(block.text in text or textwrap.indent(block.text, "    ") in text for text in written), block
