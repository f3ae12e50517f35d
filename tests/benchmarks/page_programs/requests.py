"""Fill the database, ask for every page, and write the figures as JSON."""

from __future__ import annotations

import io
import json
import statistics
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from uuid import uuid4

import django
from django.conf import settings

settings.DJANGO_MQ["TENANT_KEY"] = "tenant"
django.setup()

from django.contrib.auth.models import User  # noqa: E402 - models want the setup first
from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402
from django.test import Client  # noqa: E402
from django.test.utils import CaptureQueriesContext  # noqa: E402
from django.urls import reverse  # noqa: E402

from django_mq.acts.models import Act  # noqa: E402
from django_mq.models import Attempt, FailureGroup, History, Message, Operation, Queue, WorkerSession  # noqa: E402
from tests.benchmarks.page_programs.filling import fill  # noqa: E402
from tests.benchmarks.page_programs.sweeping import addresses  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

#: Django and a connection: what any command costs before ours begins.
BARE = "import django; django.setup(); from django.db import connection; connection.ensure_connection()"
MODELS = (
    *("queue", "message", "history", "attempt", "failuregroup", "stagedredrive", "workersession", "consumer"),
    *(
        "binding",
        "operation",
        "act",
        "recordedalert",
        "uniquekey",
        "limitexception",
        "periodicmessage",
        "workflowrun",
        "insighthour",
        "storedresult",
        "chord",
        "resultgroup",
    ),
)
ACROSS = "retry of all dead letters"
HEALTH = "from django.core.management import execute_from_command_line as run; run(['manage.py', 'mq_health'])"


def main() -> None:
    """Write the figures to the standard output."""
    messages, history, queues, repeats, sweep, seed = map(int, sys.argv[1:7])
    only, shape, kept = sys.argv[7], sys.argv[8], sys.argv[9] == "kept"
    call_command("migrate", verbosity=0)
    _say(f"{connection.vendor}: writing {messages:,} messages and {history:,} finished ones to {queues} queues")
    fill(messages, history, queues, shape, kept=kept)
    client = Client()
    client.force_login(User.objects.create_superuser("operator"))
    asked = _gotten(client, addresses(sweep, seed)) if sweep else [*_asked(client), *_commands()]
    figures = [_measured(name, ask, repeats) for name, ask in asked if only in name]
    if only in "mq_health" and not sweep:
        figures.append(_health(repeats))
    if only in ACROSS and not sweep:
        figures.append(_across(client))
    json.dump({"messages": messages, "history": history, "queues": queues, "pages": figures}, sys.stdout)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _measured(name: str, ask: Callable[[], Any], repeats: int) -> dict[str, Any]:
    with CaptureQueriesContext(connection) as statements:
        ask()
    asked = list(statements.captured_queries)  # before the next request empties the log
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        ask()
        seconds.append(time.perf_counter() - begin)
    _say(f"  {statistics.median(seconds) * 1000:7.0f} ms  {name}")
    slow = max(asked, key=lambda query: float(query["time"]), default={"sql": "", "time": "0"})
    return {
        "name": name,
        "median": statistics.median(seconds),
        "slowest": max(seconds),
        "seconds": seconds,
        "statements": len(asked),
        "slow_statement": slow["sql"][:2000],
        "slow_statement_seconds": float(slow["time"]),
    }


def _asked(client: Client) -> Iterator[tuple[str, Callable[[], Any]]]:
    yield from _gotten(client, [*_addresses(), *_findings()])
    messages = reverse("admin:django_mq_message_changelist")
    chosen = {"_selected_action": [Message.objects.latest("id").pk], "select_across": "1"}
    for act in ("cancel", "move"):
        yield (
            f"question before '{act}' on all that match",
            lambda act=act: _answered(client.post(f"{messages}?state=3", {"action": act, **chosen})),
        )
    queue = Queue.objects.get(name="queue-00")
    yield (
        "question before a purge",
        lambda: _answered(
            client.post(
                reverse("admin:django_mq_queue_changelist"), {"action": "purge", "_selected_action": [queue.pk]}
            )
        ),
    )


def _gotten(client: Client, named: Iterable[tuple[str, str]]) -> Iterator[tuple[str, Callable[[], Any]]]:
    for name, address in named:
        yield name, lambda address=address: _answered(client.get(address, follow=True))


def _answered(response: Any) -> None:
    if response.status_code != 200:
        raise AssertionError(f"{response.status_code}: {response.headers}")
    if response.streaming:
        b"".join(response.streaming_content)


def _findings() -> Iterator[tuple[str, str]]:
    yield "running now", reverse("admin:django_mq_workersession_running")
    search = reverse("admin:django_mq_message_search")
    waiting, finished = Message.objects.earliest("id"), History.objects.earliest("id")
    for words in (f"order:{finished.pk}", "tenant:7", str(finished.message_id), "order.paid", "none of these"):
        yield f"search, {words if len(words) < 30 else 'an id'}", f"{search}?{urlencode({'q': words})}"
    for words, row in (("waits", waiting), ("has finished", finished)):
        yield f"one message for life, it {words}", reverse("admin:django_mq_message_life", args=[row.message_id])


def _addresses() -> Iterator[tuple[str, str]]:
    yield "index of the admin", reverse("admin:index")
    overview = reverse("admin:django_mq_queue_overview")
    yield "overview, last hour", overview
    yield "overview, last day", f"{overview}?span=day"
    yield "overview, a queue", f"{overview}?span=day&queue=queue-03"
    charts = reverse("admin:django_mq_queue_charts")
    yield "charts, last hour", charts
    yield "charts, 30 days beside a week before", f"{charts}?span=month&beside=week"
    yield "charts, a queue", f"{charts}?span=day&queue=queue-03&beside=yesterday"
    for span in ("hour", "week"):
        for by in ("accepted", "wait_p95", "waiting"):
            address = f"{reverse('admin:django_mq_queue_tenants')}?span={span}&by={by}"
            yield f"tenants by {by}, last {span}", address
    yield "tenants of a queue", f"{address}&queue=queue-00"
    yield "overview as JSON", reverse("admin:django_mq_queue_overview_json")
    for span in ("hour", "day"):
        yield f"what runs and fails, last {span}", f"{reverse('admin:django_mq_history_types')}?span={span}"
    yield "history, type=order.paid", f"{reverse('admin:django_mq_history_changelist')}?type=order.paid"
    yield "messages' room on the disk", reverse("admin:django_mq_queue_space")
    for model in MODELS:
        yield f"list of {model}", reverse(f"admin:django_mq_{model}_changelist")
    insights = reverse("admin:django_mq_insighthour_changelist")
    for query in ("days=1", "days=28", "queue=queue-03", "queue=queue-03&days=28"):
        yield f"insights, {query}", f"{insights}?{query}"
    messages = reverse("admin:django_mq_message_changelist")
    for query in _queries():
        yield f"messages, {query}", f"{messages}?{query}"
    history = reverse("admin:django_mq_history_changelist")
    one = History.objects.earliest("id")
    for query in (
        *("outcome__exact=2", "outcome__exact=5", "queue=queue-03", "queue=none", "p=100"),
        *(f"q={one.message_id}", f"q={uuid4()}", "q=none", "q=0badcafe"),
    ):
        yield f"history, {query}", f"{history}?{query}"
    attempts = reverse("admin:django_mq_attempt_changelist")
    yield "attempts, queue=queue-03", f"{attempts}?queue=queue-03"
    yield "attempts, p=50", f"{attempts}?p=50"
    rows = (
        Queue.objects.latest("name"),
        Message.objects.latest("id"),
        Message.objects.filter(state=3).latest("id"),
        History.objects.latest("id"),
        Attempt.objects.latest("id"),
        FailureGroup.objects.latest("id"),
        Act.objects.latest("id"),
        WorkerSession.objects.latest("id"),
    )
    for row in rows:
        name = row._meta.model_name
        yield f"one {name}", reverse(f"admin:django_mq_{name}_change", args=[row.pk])
    yield "publish a message", reverse("admin:django_mq_message_add")


def _queries() -> list[str]:
    one = Message.objects.filter(correlation_id__isnull=False).earliest("id")
    worker = WorkerSession.objects.latest("id").pk
    return [
        "p=100",
        *(f"state={state}" for state in (0, 1, 2, 3, "letters")),
        "queue=queue-03",
        "queue=empty",
        "queue=queue-03&state=1",
        "queue=queue-03&state=3&p=50",
        "type=order.paid",
        "type=none",
        "priority=9",
        "priority=9&queue=queue-03",
        "attempts=0",
        "attempts=3",
        "attempts=10",
        "reason=ValueError%3A number 3",
        "reason=none",
        "error=ValueError",
        "error=none",
        f"worker={worker}",
        "published=hour",
        "published=week",
        "published=older",
        f"q={one.message_id}",
        f"q={one.correlation_id}",
        f"q={one.message_id.hex[-8:]}",
        "q=0badcafe",
        "q=tenant:7",
        "q=tenant:none",
        "q=tenant:none&state=3",
    ]


def _commands() -> Iterator[tuple[str, Callable[[], Any]]]:
    from django_mq.integrations.prometheus.collector import QueueCollector

    yield "scrape of the metrics, nothing remembered", lambda: list(QueueCollector().collect())
    asked = (
        ["mq_queues"],
        ["mq_workers"],
        ["mq_types"],
        ["mq_browse", "queue-03"],
        ["mq_top", "--count=1"],
        ["mq_doctor"],
    )
    for arguments in asked:
        yield " ".join(arguments), lambda arguments=arguments: _called(arguments)


def _called(arguments: list[str]) -> None:
    with suppress(SystemExit):  # the doctor finds something: not every queue has a worker
        call_command(*arguments, stdout=io.StringIO())


def _health(repeats: int) -> dict[str, Any]:
    """Return what mq_health takes beyond Django's own start, both measured as processes, in turn."""
    pairs = [(_process(BARE), _process(HEALTH)) for _ in range(repeats)]
    bare, whole = (statistics.median(times) for times in zip(*pairs, strict=True))
    _say(f"  {(whole - bare) * 1000:7.0f} ms  mq_health, our share of {whole * 1000:.0f} ms")
    return {
        "name": f"mq_health, our share of {whole * 1000:.0f} ms",
        "median": whole - bare,
        "slowest": max(whole - bare for bare, whole in pairs),
        "seconds": [whole - bare for bare, whole in pairs],
        "statements": 3,
    }


def _across(client: Client) -> dict[str, Any]:
    """Return what the page takes that begins an act on all that match, and say how fast the act itself goes."""
    messages = reverse("admin:django_mq_message_changelist")
    chosen = {"_selected_action": [Message.objects.filter(state=3).latest("id").pk], "select_across": "1"}
    said = {"confirmed": "yes", "reason": "the service is back"}
    begin = time.perf_counter()
    _answered(client.post(f"{messages}?state=3", {"action": "redrive", **said, **chosen}, follow=True))
    page = time.perf_counter() - begin
    operation = Operation.objects.latest("id")
    [thread] = [one for one in threading.enumerate() if one.name == f"django_mq-operation-{operation.pk}"]
    thread.join()
    seconds = time.perf_counter() - begin
    operation.refresh_from_db()
    name = f"{ACROSS}, the page that begins it; {operation.changed:,} in {seconds:.1f} s"
    _say(f"  {page * 1000:7.0f} ms  {name}")
    return {"name": name, "median": page, "slowest": page, "seconds": [page], "statements": 0}


def _process(program: str) -> float:
    begin = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", program], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True
    )
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
