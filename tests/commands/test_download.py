"""mq_download: all messages that match, with any content, in CSV without formulas."""

from __future__ import annotations

import csv
import io
import json
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connections

from django_mq.api import OutgoingMessage, publish, publish_many
from django_mq.delivery.queues import declare
from django_mq.diagnosis.messages import exports
from django_mq.errors import MQError
from django_mq.models import Message
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_django import Settings

    from tests.commands.conftest import Run

pytestmark = pytest.mark.on("sqlite")

DEAD = Message.Status.DEAD


@pytest.fixture(autouse=True)
def two_queues(database: str) -> None:
    for name in ("orders", "mails"):
        declare(shared_store(database), name)


class Terminal(io.StringIO):
    """Standard output is a terminal."""

    def isatty(self) -> bool:
        return True


def objects(printed: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in printed.splitlines()]


def cells(printed: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(printed, newline="")))


def test_all_that_match_are_printed_the_oldest_first(database: str, run: Run) -> None:
    ids = publish_many(
        [OutgoingMessage(queue="orders", body=number, type="bill", priority=number) for number in range(5)]
    )
    publish_many([OutgoingMessage(queue="mails", type="bill"), OutgoingMessage(queue="orders", type="other")])

    found = objects(run("mq_download", "--queue=orders", "--type=bill"))

    assert [(each["message_id"], each["body"]) for each in found] == [
        (str(each), number) for number, each in enumerate(ids)
    ]
    assert [each["body"] for each in objects(run("mq_download", "--type=bill", "--limit=2"))] == [0, 1]


def test_a_line_is_that_of_browsing(database: str, run: Run) -> None:
    publish("orders", {"a": 1}, headers={"tenant": "acme"}, correlation_id="c", type="bill")

    assert run("mq_download", "--queue=orders") == run("mq_browse", "orders", "--json")


@pytest.mark.parametrize("form", [[], ["--csv"]])
def test_reading_little_by_little_leaves_nothing_out(
    form: list[str], database: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"SLICE": 7, "BATCH": 3, "BATCH_BYTES": 20}.items():
        monkeypatch.setattr(exports, name, value)
    publish_many([OutgoingMessage(queue="orders", body="x" * (number % 4) * 9) for number in range(30)])

    printed = run("mq_download", *form)

    ids = [each["row"] for each in (cells(printed) if form else objects(printed))]
    assert list(map(int, ids)) == sorted(Message.objects.using(database).values_list("pk", flat=True))


def test_dead_letters_are_found_wherever_they_are(database: str, run: Run) -> None:
    publish_many([("orders", number) for number in range(3)])
    Message.objects.using(database).filter(pk__gt=Message.objects.using(database).earliest("pk").pk).update(
        state=DEAD, dead_reason="boom"
    )

    assert [each["body"] for each in objects(run("mq_download", "--state=dead"))] == [1, 2]
    assert [each["body"] for each in objects(run("mq_download", "--state=letters", "--reason=boom"))] == [1, 2]
    assert [each["body"] for each in objects(run("mq_download", "--state=ready"))] == [0]


@pytest.mark.parametrize("start", list("=+-@\t\r\n"))
def test_no_cell_is_a_formula(start: str, database: str, run: Run) -> None:
    formula = f'{start}HYPERLINK("http://evil.test","a")'
    publish("orders", formula, content_type="text/plain", type=formula, correlation_id=formula)

    [row] = cells(run("mq_download", "--csv"))

    assert {row[name] for name in ("body", "type", "correlation_id")} == {f"'{formula}"}
    assert not [value for value in row.values() if value[:1] in exports.FORMULA]


def test_a_spreadsheet_has_the_values_of_the_objects(database: str, run: Run) -> None:
    publish("orders", {"größe": [1, 'a,b\n"c"']}, headers={"tenant": "acme"}, priority=7)
    publish("orders", b"\xff\x00")

    [first, second] = cells(run("mq_download", "--csv"))

    assert json.loads(first["body"]) == {"größe": [1, 'a,b\n"c"']}
    assert (json.loads(first["headers"]), first["priority"], first["deliver_at"]) == ({"tenant": "acme"}, "7", "")
    assert (second["body"], second["body_base64"]) == ("", "/wA=")


DEEP = b"[" * 20_000 + b"]" * 20_000


@pytest.mark.parametrize("body", [b"NaN", b'"\\ud800"', b"{", b"\xff\xfe", b"", DEEP, b'["\x00"]'])
@pytest.mark.parametrize("form", [[], ["--csv"]])
def test_no_body_spoils_the_others(form: list[str], body: bytes, database: str, run: Run) -> None:
    publish_many([("orders", number) for number in range(3)])
    second = Message.objects.using(database).order_by("pk")[1]
    Message.objects.using(database).filter(pk=second.pk).update(body=body, headers=["no", "object"])

    printed = run("mq_download", *form)

    found = cells(printed) if form else objects(printed)
    assert [str(each["body"]) for each in (found[0], found[2])] == ["0", "2"]
    assert printed.encode()


def test_headers_that_are_not_even_text_spoil_no_others(database: str, run: Run) -> None:
    if connections[database].vendor != "sqlite":
        pytest.skip("Other databases refuse to store them.")
    publish_many([("orders", number) for number in range(3)])
    with connections[database].cursor() as cursor:
        cursor.execute("PRAGMA ignore_check_constraints = 1")
        cursor.execute("UPDATE django_mq_message SET headers = CAST(x'ff' AS TEXT) WHERE body = %s", [b"1"])
        cursor.execute("PRAGMA ignore_check_constraints = 0")

    found = objects(run("mq_download"))

    assert [(each["body"], each["headers"]) for each in found] == [
        (0, {}),
        (1, "\N{REPLACEMENT CHARACTER}"),
        (2, {}),
    ]


def test_what_is_hidden_is_not_in_the_file(database: str, run: Run, settings: Settings) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "MASK": ["password"]}
    publish("orders", {"password": "hunter2", "user": 1}, headers={"password": "hunter2"})
    publish("orders", "hunter2", content_type="text/plain")
    Message.objects.using(database).filter(content_type="text/plain").update(headers=["hunter2"])

    for form in ([], ["--csv"]):
        printed = run("mq_download", *form)
        assert "hunter2" not in printed
        assert "user" in printed


def test_large_bodies_are_never_in_memory_together(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    size = 500_000
    monkeypatch.setattr(exports, "BATCH_BYTES", size)
    publish_many([("orders", "x" * size) for _ in range(20)])
    rows = Message.objects.using(database)
    tracemalloc.start()

    lengths = [len(line) for line in exports.json_lines(rows)]
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert (len(lengths), min(lengths) > size) == (20, True)
    assert most < 8 * size


def test_what_comes_meanwhile_is_left_out(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "SLICE", 1)
    publish_many([("orders", 0), ("orders", 1)])
    lines = exports.json_lines(Message.objects.using(database))

    seen = [json.loads(next(lines))["body"]]
    publish("orders", 2)
    seen += [json.loads(line)["body"] for line in lines]

    assert seen == [0, 1]


def test_a_filter_that_makes_no_sense_is_an_error(database: str, run: Run) -> None:
    for arguments, words in ((["--queue=ordres"], "orders"), (["--since=yesterday"], "--since")):
        with pytest.raises((CommandError, MQError), match=words):
            run("mq_download", *arguments)


def test_nothing_that_matches_prints_nothing_but_a_head(database: str, run: Run) -> None:
    assert run("mq_download") == ""
    assert run("mq_download", "--csv").count("\n") == 1


def test_what_was_downloaded_can_be_published_once_more(database: str, run: Run, tmp_path: Path) -> None:
    given = {"type": "bill", "priority": 7, "headers": {"tenant": "acme"}, "group_key": "g", "correlation_id": "c"}
    bodies: list[Any] = [{"order": 1}, "text", b"\xff\x00", None]
    types = ["application/json", "text/plain", "image/png", "application/json"]
    for body, content_type in zip(bodies, types, strict=True):
        publish("orders", body, content_type=content_type, **given)
    file = tmp_path / "letters.jsonl"

    file.write_text(run("mq_download", "--queue=orders"))
    run("mq_publish", "mails", "--messages", f"--file={file}")

    own = ("message_id", "row", "queue", "published_at")
    first, again = (
        [drop(line, own) for line in objects(run("mq_download", f"--queue={name}"))]
        for name in ("orders", "mails")
    )
    assert again == first
    assert Message.objects.using(database).count() == 8


def test_a_line_that_hides_something_is_not_published(
    database: str, run: Run, settings: Settings, tmp_path: Path
) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "MASK": ["password"]}
    publish_many([("orders", {"user": 1}), ("orders", {"user": 2, "password": "hunter2"})])
    file = tmp_path / "letters.jsonl"
    file.write_text(run("mq_download"))

    with pytest.raises(CommandError, match="Line 2: MASK has hidden"):
        run("mq_publish", "mails", "--messages", f"--file={file}")


def drop(line: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name not in names}


@pytest.mark.parametrize("form", ["--csv", None])
def test_a_terminal_is_told_nothing_by_what_is_printed(form: str | None, database: str, run: Run) -> None:
    hostile = "\x1b]0;owned\x07\r\n\x9b2J"
    publish("orders", hostile, headers={"a": hostile}, type="bill")
    terminal = Terminal()

    call_command("mq_download", *filter(None, [form]), stdout=terminal)

    shown, filed = terminal.getvalue(), run("mq_download", *filter(None, [form]))
    assert all(line.isprintable() for line in shown.split("\n"))
    assert "owned" in shown
    carried = cells(filed)[0]["body"] if form else objects(filed)[0]["body"]
    assert carried == hostile
