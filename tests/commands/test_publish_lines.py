"""mq_publish --lines and --messages: a file of messages, batch by batch."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management.base import CommandError

from django_mq.delivery.queues import declare
from django_mq.management import lines
from django_mq.models import Message
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from pathlib import Path

    from tests.commands.conftest import Run


@pytest.fixture(autouse=True)
def orders(database: str) -> None:
    for name in ("orders", "mails"):
        declare(shared_store(database), name)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "BATCH", 2)


def bodies(alias: str, queue: str = "orders") -> list[Any]:
    rows = Message.objects.using(alias).filter(queue__name=queue).order_by("id")
    return [json.loads(bytes(row.body)) for row in rows]


def written(directory: Path, text: str) -> Path:
    file = directory / "lines"
    file.write_text(text)
    return file


def test_each_line_is_a_body(database: str, run: Run, tmp_path: Path) -> None:
    file = written(tmp_path, '{"n": 1}\n\n2\n"three"\n')

    assert run("mq_publish", "orders", "--lines", "--file", file, "--priority", 7) == "3 messages published.\n"

    assert bodies(database) == [{"n": 1}, 2, "three"]
    assert set(Message.objects.using(database).values_list("priority", flat=True)) == {7}


def test_a_letter_says_more_than_its_body(database: str, run: Run, tmp_path: Path) -> None:
    file = written(
        tmp_path,
        '{"body": 1, "priority": 9}\n{"queue": "mails", "body": 2, "deliver_at": "2190-01-01T00:00+00:00"}\n',
    )

    run("mq_publish", "orders", "--messages", "--file", file, "--type", "sale")

    assert Message.objects.using(database).get(queue__name="orders").priority == 9
    late = Message.objects.using(database).get(queue__name="mails")
    assert late.type == "sale"
    assert late.deliver_at is not None
    assert late.deliver_at.year == 2190


def test_a_time_without_an_offset_is_the_sites_and_a_past_one_means_at_once(
    database: str, run: Run, tmp_path: Path, settings: Any
) -> None:
    settings.TIME_ZONE = "Europe/Berlin"
    file = written(
        tmp_path,
        '{"body": 1, "deliver_at": "2190-01-01T09:00"}\n{"body": 2, "deliver_at": "2001-01-01T09:00"}\n',
    )

    run("mq_publish", "orders", "--messages", "--file", file)

    states = dict(Message.objects.using(database).values_list("state", "deliver_at"))
    assert states[Message.Status.SCHEDULED] == datetime(2190, 1, 1, 8, tzinfo=UTC)
    assert Message.Status.READY in states


@pytest.mark.parametrize(
    ("third", "why"),
    [
        ("{oops", "Line 3: It is not JSON"),
        ("[1]", "Line 3: It is not an object"),
        ('{"body": 1, "colour": 2}', "Line 3: It has 'colour'"),
        ('{"headers": {}}', "Line 3: It has no body"),
        ('{"body_base64": "?"}', "Line 3: Its body_base64 is not base 64"),
        ('{"row": 1, "body": 1, "headers": "{"}', "Line 3: Its headers are not an object"),
        ('{"body": 1, "priority": 10}', "Line 3: .*priority"),
        ('{"queue": "ordres", "body": 1}', "Line.* 3.*: .*ordres"),
        ('{"body": 1, "deliver_at": "soon"}', "Line 3: deliver_at 'soon' is not a valid date and time"),
    ],
)
def test_a_line_that_cannot_be_published_is_named_and_ends_it(
    database: str, run: Run, tmp_path: Path, third: str, why: str
) -> None:
    file = written(tmp_path, f'{{"body": 1}}\n{{"body": 2}}\n{third}\n{{"body": 4}}\n')

    with pytest.raises(CommandError, match=why) as refused:
        run("mq_publish", "orders", "--messages", "--file", file)

    assert "Published before it: 2" in str(refused.value)
    assert bodies(database) == [1, 2]


def test_lines_have_no_body_of_their_own(database: str, run: Run) -> None:
    with pytest.raises(CommandError, match="take neither BODY"):
        run("mq_publish", "orders", "5", "--lines")


def test_a_file_that_is_not_there_is_said_to_be_missing(database: str, run: Run, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be read"):
        run("mq_publish", "orders", "--lines", "--file", tmp_path / "none")
