"""What a task says of its attempts and its message, by ``@options`` and by ``using()``."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone

from django_mq.api import Unique, publish
from django_mq.delivery.consumer.handlers import handler_of
from django_mq.engine.decisions.retries import Retries
from django_mq.errors import ConfigurationError, DuplicateMessage, InvalidMessage, UnknownTask
from django_mq.integrations.tasks.envelope import is_envelope, own_options, pack
from django_mq.integrations.tasks.options import options
from django_mq.models import Attempt, Message, TaskResult
from django_mq.replies.models import MessageProgress
from django_mq.replies.reporter import REPORTER

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[[], None]

pytestmark = pytest.mark.on("sqlite", once="postgresql")


def test_options_decide_on_the_failures_of_a_task(alias: str, work: Any, run: Run) -> None:
    retried, rejected = work.fail.enqueue("value"), work.fail.enqueue("lookup")
    once = work.fail.using(max_attempts=1).enqueue("value")
    by_queue = work.which_attempt.enqueue(9)
    released = work.fail.using(release_seconds=500).enqueue("os")

    run()

    for result, attempts in ((retried, 2), (rejected, 1), (once, 1), (by_queue, 3)):
        result.refresh()
        assert (result.status, result.attempts, len(result.errors)) == ("FAILED", attempts, attempts)
    released.refresh()
    assert (released.status, released.errors) == ("READY", [])
    message = Message.objects.using(alias).get(message_id=released.id)
    assert message.deliver_at
    assert message.deliver_at > timezone.now() + timedelta(seconds=400)
    assert not TaskResult.objects.using(alias).filter(pk=released.id).exists()
    assert Attempt.objects.using(alias).count() == 2 + 1 + 1 + 3


def test_the_message_of_a_task_has_its_group_and_headers(alias: str, work: Any, run: Run) -> None:
    work.belong.enqueue()
    work.belong.using(group_key="two", headers={"urgent": True}).enqueue()
    work.belong.using(headers={"tenant": "south"}).using(headers={"urgent": True}).enqueue()

    stored = [(each.group_key, each.headers) for each in Message.objects.using(alias).order_by("id")]
    assert stored == [
        ("one", {"tenant": "north"}),
        ("two", {"tenant": "north", "urgent": True}),
        ("one", {"tenant": "south", "urgent": True}),
    ]
    run()
    assert work.ran == [(1, True, False)] * 3
    REPORTER.close()
    rows = MessageProgress.objects.using(alias).values_list("fraction", "text", "queue_name")
    assert list(rows) == [(0.5, "half", "default")] * 3


def test_a_worker_has_the_options_of_the_task_that_a_message_names(work: Any, run: Run) -> None:
    run()
    handler, linear = handler_of("default"), Retries(backoff="linear", max_attempts=7)
    for task, limits, retries in (
        (work.add, (None, None), None),
        (work.belong, (None, 5), None),
        (work.belong.using(time_limit_seconds=9), (9, 5), None),
        (
            work.add.using(backoff="linear", max_attempts=7),
            (None, None),
            linear,
        ),
    ):
        found = own_options(handler, lambda task=task: pack(task, [], {}))
        assert (found.time_limit_seconds, found.soft_time_limit_seconds) == limits
        assert found.retries == retries
        assert (found.name, found.queue, found.for_message) == (handler.name, handler.queue, None)


def test_the_page_of_a_message_says_what_its_task_says(alias: str, work: Any, run: Run) -> None:
    from django_mq.admin.retries import of_message

    run()
    for task, said in ((work.fail, "Attempt 1 of 2"), (work.fail.using(max_attempts=9), "Attempt 1 of 9")):
        result = task.enqueue("value")
        [(_, panel)] = of_message(Message.objects.using(alias).get(message_id=result.id))
        assert said in panel
        assert "A dead letter at once: LookupError." in panel
    plain = work.add.enqueue(1)
    assert of_message(Message.objects.using(alias).get(message_id=plain.id)) == []


#: Options that no task can have, and what the error says.
IMPOSSIBLE: list[tuple[dict[str, Any], str]] = [
    ({"max_attempts": -1}, "max_attempts is -1"),
    ({"backoff": "weekly"}, "backoff is 'weekly'"),
    ({"backoff_seconds": "soon"}, "backoff_seconds is 'soon'"),
    ({"time_limit_seconds": 0}, "time_limit_seconds is 0"),
    ({"time_limit_seconds": 1, "soft_time_limit_seconds": 2}, "has to be the shorter one"),
    ({"release_seconds": -1}, "release_seconds is -1"),
]


@pytest.mark.parametrize(("given", "said"), IMPOSSIBLE)
def test_impossible_options_are_refused_where_they_are_written(
    alias: str, work: Any, given: dict[str, Any], said: str
) -> None:
    from django_mq.integrations.tasks import options

    for write in (options, work.add.using):
        with pytest.raises(ConfigurationError, match=said):
            write(**given)


def test_code_and_unknown_words_are_refused(alias: str, work: Any) -> None:
    from django_mq.integrations.tasks import options

    with pytest.raises(ConfigurationError, match="no message can carry"):
        work.add.using(backoff=lambda attempt, error: 1)
    for wrong in ({"retry_on": ValueError}, {"attempts": 3}):
        with pytest.raises(TypeError):
            work.add.using(**wrong)
    with pytest.raises(ConfigurationError, match="no class of exceptions"):
        options(retry_on=("ValueError",))  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="below @task"):
        options(max_attempts=2)(work.add)
    for wrong in ({"group_key": "x" * 1000}, {"headers": ["a"]}):
        with pytest.raises(InvalidMessage):
            work.add.using(**wrong).enqueue(1)
    assert not Message.objects.using(alias).exists()


#: Options that another program wrote into an envelope.
FOREIGN = [None, [], {"reject_on": "os.system"}, {"max_attempts": {}}, {"max_attempts": -1}, {"priority": 5}]


def test_foreign_options_make_no_task_run(alias: str, work: Any, run: Run) -> None:
    for given in FOREIGN:
        envelope = pack(work.give, ["x"], {}) | {"options": given}
        assert is_envelope(envelope)
        publish("default", envelope, using=alias)

    run()

    assert work.ran == []
    assert Message.objects.using(alias).filter(state=Message.Status.DEAD).count() == len(FOREIGN)
    known = {UnknownTask.__name__, ConfigurationError.__name__, "TypeError"}
    assert set(Attempt.objects.using(alias).values_list("error", flat=True)) <= known


def test_a_unique_task_returns_the_result_of_the_first_one(alias: str, work: Any) -> None:
    by_one = Unique(arguments=("one",), second="drop")
    task = work.add.using(unique=by_one)
    first = task.enqueue(1, two=2)

    # A key is of values, however they are given.
    assert task.enqueue(two=3, one=1).id == first.id
    assert task.enqueue(2).id != first.id
    # The context of a task is no argument.
    assert work.which_attempt.using(unique=Unique(second="drop")).enqueue(1).id != first.id
    with pytest.raises(DuplicateMessage):
        work.add.using(unique=Unique(arguments=("one",))).enqueue(1)
    with pytest.raises(ConfigurationError, match="until"):
        work.add.using(unique=Unique(until="never"))
    with pytest.raises(ConfigurationError, match="give a Unique"):
        options(unique="a")  # type: ignore[arg-type]
    with pytest.raises(InvalidMessage, match="three"):
        work.add.using(unique=Unique(arguments=("three",))).enqueue(1)
