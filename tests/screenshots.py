"""Pictures for the documentation: ``python -m tests.screenshots [--folder docs/how-to/images]``.

A site of its own, on SQLite, with a shop's queues on a busy morning; a headless Chromium looks at it. With
``--every`` it takes each page of the admin, whole, on a phone, a laptop and a wide screen, light and dark. With
``--language de`` the pages are in German, and with ``--queues 305`` there are more queues.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen
from uuid import uuid4

from django_mq.engine.histograms import as_text, histogram_of
from django_mq.engine.rollups import ALL, KEPT, MINUTE, Figures, added_up, begin_of
from tests.services.processes import tethered
from tests.services.redis import find_free_port
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from uuid import UUID

    from playwright.sync_api import FloatRect, Page

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs/how-to/images"
WIDTH, HEIGHT = 1280, 750
#: A phone, a laptop, and a wide screen.
WIDTHS = (390, WIDTH, 1920)
#: What the site asks of this program in a process of its own.
LANGUAGE, QUEUES = "SCREENSHOTS_LANGUAGE", "SCREENSHOTS_QUEUES"
TRACEBACK = """Traceback (most recent call last):
  File "shop/consumers.py", line 31, in send_invoice
    customer = Customer.objects.get(pk=message.body["customer"])
shop.models.Customer.DoesNotExist: Customer matching query does not exist.
"""


def main() -> None:
    """Make every picture, or, in a process of its own, fill the site."""
    parser = argparse.ArgumentParser(description="Make the pictures of the documentation.")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--every", action="store_true", help="each page of the admin, in six forms")
    parser.add_argument("--language", default="en")
    parser.add_argument("--queues", type=int, default=0, help="queues beside those of the shop")
    parser.add_argument("--only", default="", help="of these pages, the ones with this in their name")
    parser.add_argument("--fill", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fill:
        fill()
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    from tests.admin.browser import browsing, enter

    os.environ |= {LANGUAGE: options.language, QUEUES: str(options.queues)}
    with site() as address:
        for dark in (False, True) if options.every else (False,):
            with browsing(address, dark=dark) as page:
                page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
                enter(page)
                if options.every:
                    take_every_page(page, options.folder, "dark" if dark else "light", options.only)
                else:
                    take_all(page, options.folder)


def take_every_page(page: Page, folder: Path, scheme: str, only: str) -> None:
    """Take each page at all widths, and say where one is wider than the window."""
    queue, rows = "/admin/django_mq/queue/", "/admin/django_mq"
    lists = ("queue", "message", "workersession", "consumer", "history", "failuregroup", "attempt")
    lists += ("taskresult", "storedresult", "chord", "resultgroup", "operation", "messagebatch", "durableevent")
    lists += ("binding", "insighthour", "archivebatch", "bulkjob", "periodicmessage", "workflowrun")
    pages = {name: f"{rows}/{name}/" for name in lists}
    pages |= {"app": f"{rows}/", "overview": f"{queue}overview/", "space": f"{queue}space/"}
    pages |= {
        "types": f"{rows}/history/types/",
        "running": f"{rows}/workersession/running/",
        "publish": f"{rows}/message/add/",
        "new queue": f"{queue}add/",
    }
    pages |= {
        "dead letters": f"{rows}/message/?state=letters",
        "queue charts": f"{queue}charts/?queue=thumbnails",
        "charts": f"{queue}charts/?span=day&beside=yesterday",
        "insights queue": f"{rows}/insighthour/?queue=orders",
    }
    pages |= {"durable message": first_row(page, f"{rows}/message/?queue=parcels")}
    pages |= {"durable message that sleeps": nth_row(page, f"{rows}/message/?queue=parcels", 1)}
    pages |= {"dead letter": first_row(page, f"{rows}/message/?state=letters")}
    pages |= {
        f"{name} page": first_row(page, pages[name]) for name in lists if name not in {"consumer", "insighthour"}
    }
    for name, address in pages.items():
        if only not in name:
            continue
        page.goto(address)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": HEIGHT})
            if (wide := page.evaluate("document.documentElement.scrollWidth")) > width:
                sys.stdout.write(f"{name}: {wide} of {width} pixels\n")
            page.screenshot(path=folder / f"{name} {width} {scheme}.png", full_page=True)


def first_row(page: Page, address: str) -> str:
    """Return the address of the page of the first row of a list."""
    return nth_row(page, address, 0)


def nth_row(page: Page, address: str, number: int) -> str:
    """Return the address of the page of a row of a list, counted from 0."""
    page.goto(address)
    found = page.locator("#result_list tbody th a").nth(number).get_attribute("href")
    assert found, address
    return found


def fill_results(now: datetime) -> None:
    """Write results of Celery's tasks, of finished messages, a chord that waits, and a saved group."""
    from django_mq.models import History
    from django_mq.results.models import Chord, ChordMember, ResultGroup, StoredResult

    stored = {"content_type": "application/json", "content_encoding": "utf-8"}
    boom = {"exc_type": "CardDeclined", "exc_message": ["insufficient funds"], "exc_module": "shop.errors"}
    values = [
        *(("SUCCESS", {"order": 312, "sent": True}), ("FAILURE", boom), ("PROGRESS", {"page": 12, "of": 40})),
        *(("SUCCESS", ["orders"] * 60), ("SUCCESS", None)),
    ]
    tasks = ("shop.tasks.charge", "shop.tasks.make_report")
    for number, message in enumerate(History.objects.order_by("-id")[:15]):
        status, value = values[number % len(values)]
        has_ended = status != "PROGRESS"
        task_id = str(uuid4())
        StoredResult.objects.create(
            task_id=task_id,
            message_id=message.message_id,
            status=status,
            result=json.dumps(value),
            traceback=TRACEBACK if status == "FAILURE" else None,
            name=tasks[number % 2],
            queue=message.queue_name,
            args="[312]",
            kwargs='{"channel": "mail"}',
            worker="celery@web-2",
            retries=0,
            group_id="9d0c7a52-3c55-4b1b-a1d4-2f0cbb7f86a1",
            done_at=message.finished_at if has_ended else None,
            expires_at=now + timedelta(days=1),
            **stored,
        )
        History.objects.filter(pk=message.pk).update(correlation_id=task_id)
    ids = list(StoredResult.objects.values_list("task_id", flat=True))
    for number, group in enumerate(("9d0c7a52-3c55-4b1b-a1d4-2f0cbb7f86a1", str(uuid4()))):
        Chord.objects.create(
            group_id=group,
            size=15,
            counted=15 - 3 * number,
            failed=number,
            ended_at=None if number else now - timedelta(minutes=5),
            expires_at=now + timedelta(hours=20 + number),
        )
        if number:
            for position, task_id in enumerate(ids[:12]):
                ChordMember.objects.create(group_id=group, task_id=task_id, position=position, status="SUCCESS")
        members = {"result": [[group, None], [[[task_id, None], None] for task_id in ids]]}
        ResultGroup.objects.create(
            group_id=group, members=json.dumps(members), expires_at=now + timedelta(days=1), **stored
        )


def take_all(page: Page, folder: Path) -> None:
    """Walk through an operator's tasks, a picture for each."""
    page.evaluate("localStorage.setItem('django.admin.navSidebarIsOpen', 'false')")

    def take(name: str, *, top: float = 0, height: int = HEIGHT) -> None:
        page.wait_for_load_state("load")
        clip: FloatRect = {"x": 0, "y": top, "width": WIDTH, "height": height}
        page.screenshot(path=folder / f"{name}.png", full_page=True, clip=clip)

    page.goto("/admin/django_mq/queue/overview/")
    take("overview", height=1100)
    choose(page, "orders", "pause")
    page.get_by_label("Reason").fill("stock taking until noon")
    take("pause", height=530)
    page.goto("/admin/django_mq/message/?state=3&queue=invoices")
    take("dead-letters", height=620)
    page.locator("#result_list th a").first.click()
    take("dead-letter", height=450)
    timeline = page.get_by_role("heading", name="Timeline").bounding_box()
    take("attempts", top=timeline["y"] - 10 if timeline else 0, height=170)
    choose(page, "invoices", "redrive")
    take("redrive", height=340)
    choose(page, "reports", "purge")
    take("purge", height=460)
    page.goto("/admin/django_mq/message/add/")
    page.get_by_label("Queue").select_option("orders")
    page.get_by_label("Body", exact=False).last.fill('{"order": 7012, "customer": 312}')
    take("publish", height=1090)
    page.goto("/admin/django_mq/messagebatch/")
    page.get_by_role("link", name="import of orders, July").click()
    take("batch", height=855)
    page.goto("/admin/django_mq/workersession/")
    take("workers", height=540)
    take_workflow(page, take)
    page.goto(nth_row(page, "/admin/django_mq/message/?queue=parcels", 1))
    steps = page.get_by_role("heading", name="Steps of the handler").bounding_box()
    take("durable-message", top=steps["y"] - 10 if steps else 0, height=290)


def take_workflow(page: Page, take: Callable[..., None]) -> None:
    """Take the page of a workflow that has failed."""
    page.goto(first_row(page, "/admin/django_mq/workflowrun/?state=failed"))
    take("workflow", height=585)


def choose(page: Page, queue: str, action: str) -> None:
    """Choose an act for a queue in their list."""
    page.goto("/admin/django_mq/queue/")
    page.get_by_role("checkbox", name=f"Select this object for an action - {queue}").check()
    page.locator("select[name=action]").select_option(action)
    page.get_by_role("button", name="Go", exact=True).click()


@contextmanager
def site() -> Iterator[str]:
    """A running site with the shop's data; yields its address."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "DATABASE_URL": f"sqlite:///{folder}/shop.sqlite3", "PYTHONPATH": str(ROOT)}
        environment |= {"DJANGO_SETTINGS_MODULE": "tests.settings.sqlite"}
        fill_it = [sys.executable, "-m", "tests.screenshots", "--fill"]
        subprocess.run(fill_it, env=environment, stdin=subprocess.DEVNULL, check=True)
        address = f"127.0.0.1:{find_free_port()}"
        serve = [sys.executable, "-m", "django", "runserver", "--noreload", "--insecure", address]
        server = subprocess.Popen(
            tethered(serve, death_signal=signal.SIGKILL),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_until(lambda: answers(f"http://{address}/admin/login/"), "the site")
            yield f"http://{address}"
        finally:
            server.kill()
            server.wait()


def answers(address: str) -> bool:
    """Whether a server answers at the address."""
    try:
        with urlopen(address, timeout=5):
            return True
    except OSError:
        return False


def fill() -> None:
    """Write the shop: five queues, some of them with alerts, three workers, and the last hour."""
    import django

    django.setup()
    from django.contrib.auth.models import User
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    User.objects.create_superuser("operator", password="operator")
    random.seed(7)
    sessions = make_workers()
    make_messages(sessions)
    make_past()
    make_the_rest()
    make_periodic_messages()
    make_batches()
    make_durable_handlers()
    make_failures()
    make_tiles()
    make_workflows()
    make_queues(int(os.environ.get(QUEUES, "0")))


def make_queues(number: int) -> None:
    """Write more queues, some of them with messages."""
    from django.utils import timezone

    from django_mq.models import Message, Queue

    now = timezone.now()
    queues = Queue.objects.bulk_create(Queue(name=f"shop.department-{one:03}.mails") for one in range(number))
    given = {"content_type": "application/json", "body": b"{}", "level": 4, "priority": 4, "type": "mail"}
    for place, queue in enumerate(queues[::4]):
        Message.objects.create(
            queue=queue, state=3 if place % 9 == 0 else 1, message_id=uuid4(), published_at=now, **given
        )


def make_durable_handlers() -> None:
    """Write a message whose handler waits, one whose handler sleeps, and events."""
    from django.utils import timezone

    from django_mq.durable.models import DurableEvent, DurableStep
    from django_mq.durable.sleeps import ASLEEP
    from django_mq.models import Message, Queue

    now = timezone.now()
    queue = Queue.objects.create(name="parcels")
    for number, key in enumerate(("7001", "7002", "customer-4711@example.org/orders/2031/01/7003")):
        event = DurableEvent.objects.create(name="packed", key=key, waited_at=now)
        if number == 1:
            times = {"emitted_at": now - timedelta(minutes=9), "expires_at": now + timedelta(days=7)}
            DurableEvent.objects.filter(pk=event.pk).update(payload=json.dumps({"box": 12}), **times)
        until = None if number == 0 else now + timedelta(days=3)
        key_name = ASLEEP if number == 1 else f"durable event {event.pk}"
        state = {"state": 7, "park_key": key_name, "parked_until": until, "level": 4, "priority": 4}
        body = {"body": json.dumps({"order": key}).encode(), "content_type": "application/json"}
        ids = {"message_id": uuid4(), "queue_name": "parcels"}
        state |= {"published_at": now - timedelta(minutes=21)}
        Message.objects.create(queue=queue, message_id=ids["message_id"], **state, **body)
        charged = {"kind": "step", "name": "charge the card", "result": json.dumps({"receipt": f"R-{key}"})}
        done = {"outcome": "done", "recorded_at": now - timedelta(minutes=20)}
        DurableStep.objects.create(**ids, place=0, seconds=0.84, **charged, **done)
        wait = {"kind": "wait", "name": "packed", "key": key}
        if number == 1:
            DurableStep.objects.create(**ids, place=1, **wait, **(done | {"result": json.dumps({"box": 12})}))
            DurableStep.objects.create(**ids, place=2, kind="step", name="send", seconds=2.1, **done)
            nap = {"kind": "sleep", "outcome": "open", "until": until, "recorded_at": now}
            DurableStep.objects.create(**ids, place=3, **nap)
        else:
            asked = {"outcome": "open", "until": until, "recorded_at": now, "event": event}
            DurableStep.objects.create(**ids, place=1, **wait, **asked)


def make_batches() -> None:
    """Write batches: one that runs and has failures, and others that have ended."""
    from django.utils import timezone

    from django_mq.batches.models import BatchMember, MessageBatch
    from django_mq.models import Message, Queue

    now = timezone.now()
    rows, report = Queue.objects.create(name="rows"), json.dumps({"queue_name": "reports"})
    for minutes, name, state, counts in (
        (2, "import of orders, July", "running", (1200, 2310, 3, 0)),
        (31, "prices of 17 suppliers", "succeeded", (0, 17, 0, 0)),
        (55, "newsletter", "cancelled", (0, 120, 0, 4880)),
        (70, "import of orders, June", "failed", (0, 3498, 15, 0)),
    ):
        began = now - timedelta(minutes=minutes)
        ended = None if state == "running" else began + timedelta(minutes=4)
        times = {"created_at": began, "counted_at": ended or now, "ended_at": ended, "complete_at": ended}
        given = {"state": state, "on_complete": report, **dict(zip(MessageBatch.COUNTED, counts, strict=True))}
        times["failure_at"] = now if counts[2] else None
        given["on_failure"] = report
        batch = MessageBatch.objects.create(id=uuid4(), name=name, **given, **times)
        for number in range(counts[2]):
            dead = {
                "state": 3,
                "dead_at": now,
                "dead_reason": "ValueError: no such customer",
                "level": 4,
                "priority": 4,
            }
            body = {
                "body": b"{}",
                "content_type": "application/json",
                "published_at": began,
                "message_id": uuid4(),
            }
            Message.objects.create(queue=rows, attempts=1, type=f"row {number}", **dead, **body)
            ids = {"id": uuid4(), "message_id": body["message_id"], "queue_name": "rows"}
            BatchMember.objects.create(batch=batch, state=2, ended_at=now, **ids)


def make_periodic_messages() -> None:
    """Write three periodic messages: with runs, changed by an operator, and for a queue that is gone."""
    from django.utils import timezone

    from django_mq.periodic import editor
    from django_mq.periodic.models import PeriodicMessage, PeriodicRun

    report = {"queue": "reports", "target": "report.day", "body": {"days": 1}, "tz": "Europe/Berlin"}
    rows = [
        PeriodicMessage(name="daily report", cron="0 3 * * mon-fri", **report),
        PeriodicMessage(name="shop.tasks.ping", every_seconds=30.0, queue="mails", source="code of shop"),
        PeriodicMessage(name="old thumbnails", cron="*/10 * * * *", queue="pictures", missed="skip"),
    ]
    rows[1].declared = {**rows[1].values, "every_seconds": 60.0}
    for row in rows:
        editor.save(row, using="default")
    now = timezone.now().replace(minute=0, second=0, microsecond=0)
    for day, outcome in enumerate(("succeeded", "skipped", "succeeded", "dead", "missed"), 1):
        due = now - timedelta(days=day)
        ended = due + timedelta(seconds=4)
        PeriodicRun.objects.create(
            periodic=rows[0], due_at=due, outcome=outcome, ended_at=ended, message_id=uuid4(), queue_name="reports"
        )


def make_workflows() -> None:
    """Write workflows: one that has failed, one that runs, one of a thousand steps, and a long one."""
    from django_mq.api import Workflow
    from django_mq.models import Queue
    from django_mq.workflows.models import StepRun, WorkflowRun

    for name in ("import", "pages", "mail"):
        Queue.objects.create(name=name)
    report = Workflow("site report")
    fetch = report.step("fetch", "import", compensate="mail")
    pages = report.step("analyse pages", "pages", for_each=fetch)
    links = report.step("check links", "import", after=[fetch])
    words = report.step("count words", "import", after=[fetch])
    index = report.step("index", "import", after=[pages, links])
    report.step("mail report", "mail", after=[index, words])
    report.step("tell operators", "mail", after=[index], runs_on="failure")
    many, long = Workflow("thumbnails"), Workflow("nightly chain")
    first = many.step("list pictures", "import")
    many.step("publish", "mail", after=[many.step(f"shrink {n}", "pages", after=[first]) for n in range(1000)])
    last = []
    for n in range(300):
        last = [long.step(f"part {n}", "import", after=last)]

    def started(flow: Workflow, done: int, states: dict[str, str], **values: str) -> None:
        run = flow.start({"site": "example.org"}, key=values.get("label"))
        WorkflowRun.objects.filter(pk=run).update(**values, open_steps=len(flow.steps) - done)
        steps = list(StepRun.objects.filter(run=run, number=-1).order_by("id"))
        for place, step in enumerate(steps):
            step.state = states.get(step.name, "succeeded" if place < done else "waiting")
            step.message_id = step.message_id or (
                uuid4() if step.state in {"succeeded", "failed", "ready"} else None
            )
        StepRun.objects.bulk_update(steps, ["state", "message_id"], batch_size=200)
        if flow is report:
            make_items(run, failed=done > 3)

    going = {"analyse pages": "ready", "count words": "ready", "check links": "succeeded"}
    failed = {"analyse pages": "failed", "tell operators": "succeeded"}
    failed |= dict.fromkeys(["index", "mail report"], "blocked")
    started(report, 2, going, label="customer 17")
    started(report, 4, failed, state="failed", reason="analyse pages")
    started(many, 700, {"shrink 5": "failed", "shrink 800": "ready", "shrink 801": "ready"})
    started(long, 100, {"part 100": "ready"})


def make_items(run: UUID, *, failed: bool) -> None:
    """Write the items of the step "analyse pages"."""
    from django_mq.workflows.models import StepRun

    states = {7: "failed"} if failed else dict.fromkeys(range(18, 24), "ready")
    StepRun.objects.filter(run=run, name="analyse pages").update(items=24)
    for number in range(24):
        state = states.get(number, "succeeded")
        reason = "ValueError: the page has no title" if state == "failed" else ""
        given = {"number": number, "state": state, "reason": reason, "message_id": uuid4()}
        StepRun.objects.create(run_id=run, name="analyse pages", **given)


def make_tiles() -> None:
    """Write the figures of the tiles, now and yesterday, and since when the alerts stand."""
    from django.utils import timezone

    from django_mq.acts.models import Act
    from django_mq.alerts.models import RecordedAlert
    from django_mq.alerts.observed import standing
    from django_mq.tiles.models import TileMinute

    now = timezone.now().replace(second=0, microsecond=0)
    rows = []
    for day in (0, 1):
        for number in range(70):
            figures = {
                "waiting": max(20, 1500 - 60 * number) if not day else 40 + 9 * math.sin(number / 5),
                "dead": max(0, 14 - number // 9) if not day else 2 + number // 30,
                "slots": 6 - (number % 7 > 4) if not day else 4 + (number % 5 > 2),
                "long_running": 2 if number < 22 and not day else 0,
                "periodic_failed": 0,
            }
            begins_at = now - timedelta(days=day, minutes=number)
            rows.append(TileMinute(begins_at=begins_at, figures=figures))
    TileMinute.objects.bulk_create(rows)
    acts = {"name": "pause", "sentence": "“reports” is paused: the new scheme is being copied"}
    Act.objects.create(
        user_name="ann",
        interface="admin",
        model="queue",
        about="reports",
        began_at=now - timedelta(minutes=41),
        **acts,
    )
    for cause, about, minutes in (("unserved", "thumbnails", 20), ("dead", "invoices", 74), ("dead", "mails", 31)):
        times = {"began_at": now - timedelta(minutes=minutes), "seen_at": now}
        given = {"cause": cause, "about": about, "level": "problem", "sentence": ""}
        RecordedAlert.objects.create(standing=standing(cause, about), **given, **times)


def make_failures() -> None:
    """Write what runs, group what has failed, and begin a redrive in stages."""
    from django.utils import timezone

    from django_mq.failures.groups import group_new
    from django_mq.models import Attempt, Deploy, FailureGroup, Message, SnoozedAlert, StagedRedrive
    from django_mq.stores.registry import shared_store

    now = timezone.now()
    for message in Message.objects.filter(state=2, queue__name__in=["orders", "invoices"])[:4]:
        session = message.session
        session.running = [*(session.running or ()), [message.pk, message.claim, "shop.consumers.take", 1320.0]]
        session.save()
    for number in range(90):
        Attempt.objects.create(
            message_id=uuid4(),
            queue_name="mails",
            type="mail.welcome",
            number=1,
            failed_at=now - timedelta(minutes=number**1.6),
            worker=f"native@web-{number % 4}:4711",
            error="TimeoutError",
            error_path="builtins.TimeoutError",
            detail=f"POST https://mail.example.com/v1/send for order {number} timed out after {number / 7:.2f} s",
            traceback=TRACEBACK.replace("send_invoice", "send_mail"),
        )
    while group_new(shared_store("default"), 500):
        pass
    Deploy.objects.create(version="2026.11.3", first_at=now - timedelta(minutes=75))
    times = {"created_at": now - timedelta(minutes=2), "paced_at": now, "beat_at": now}
    given = {"newest": 10**6, "user_name": "operator", "first": 10, "sent": 10, "succeeded": 9, "failed": 1}
    group = FailureGroup.objects.get(error="DoesNotExist")
    snooze = {"reason": "until the copy is done", "until": now + timedelta(hours=3), "created_at": now}
    SnoozedAlert.objects.create(kind="paused", about="reports", **snooze)
    about = str(Attempt.objects.filter(error="DoesNotExist").values_list("message_id", flat=True)[0])
    StagedRedrive.objects.create(group=group, status="stopped", reason="failed", about=about, **given, **times)


def make_workers() -> list[int]:
    """Write two workers that live and one that does not."""
    from django.utils import timezone

    from django_mq.models import Consumer, WorkerSession

    now, made = timezone.now(), []
    for name, kind, queues, late in (
        ("celery@web-1", "celery", ["mails", "reports"], False),
        ("native@web-2:4711", "native", ["orders", "invoices"], False),
        ("native@web-3:812", "native", ["orders"], True),
    ):
        beat = now - timedelta(minutes=4 if late else 0, seconds=3)
        times = {"started_at": beat - timedelta(hours=7), "heartbeat_at": beat}
        times |= {"deadline": beat + timedelta(minutes=2 if late else 60)}
        host, pid = name.split("@")[1].split(":")[0], 4711
        seen = {"queues": queues, "credit": 40, "held": 6, "version": "0.1.0", "host": host, "pid": pid}
        seen |= {"busy": 3, "slots": 4, "memory_bytes": 61_000_000}
        session = WorkerSession.objects.create(name=name, kind=kind, **seen, **times)
        for queue in queues:
            Consumer.objects.create(
                session=session, queue_name=queue, credit_limit=20, credit_used=7, delivered=8131
            )
        made.append(session.pk)
    return made


def make_messages(sessions: list[int]) -> None:
    """Write what waits, runs and is dead."""
    from django.utils import timezone

    from django_mq.models import Attempt, Message, Queue

    now = timezone.now()
    names = ("orders", "mails", "invoices", "reports", "thumbnails")
    queues = {name: Queue.objects.create(name=name, max_attempts=3) for name in names}
    Queue.objects.filter(name="reports").update(paused=True, paused_reason="the new scheme is being copied")
    states = {
        "orders": (14, 3, 5, 0),
        "mails": (120, 40, 7, 2),
        "invoices": (31, 0, 2, 9),
        "reports": (4, 2, 0, 0),
        "thumbnails": (33, 0, 0, 0),
    }
    types = {
        "orders": "order.placed",
        "mails": "mail.welcome",
        "invoices": "invoice.send",
        "reports": "report.day",
        "thumbnails": "picture.shrink",
    }
    for name, (ready, scheduled, claimed, dead) in states.items():
        late = 1260 if name == "thumbnails" else 0
        for number, state in enumerate((1,) * ready + (0,) * scheduled + (2,) * claimed + (3,) * dead):
            priority = random.choice((4, 4, 4, 7, 9))
            failed = 3 if state == 3 else int(state == 0 and number % 3 == 0)
            message = Message.objects.create(
                queue=queues[name],
                state=state,
                level=priority,
                priority=priority,
                attempts=failed,
                message_id=uuid4(),
                type=types[name],
                published_at=now - timedelta(seconds=15 + 7 * number + late + (3600 if state == 3 else 0)),
                deliver_at=now + timedelta(minutes=10 + number) if state == 0 else None,
                session_id=sessions[number % 2] if state == 2 else None,
                claim=number if state == 2 else None,
                claimed_at=now - timedelta(seconds=4) if state == 2 else None,
                dead_reason="DoesNotExist: Customer matching query does not exist." if state == 3 else "",
                dead_at=now - timedelta(minutes=number) if state == 3 else None,
                content_type="application/json",
                headers={"tenant": "blue"},
                body=b'{"order": %d, "customer": %d}' % (7000 + number, 300 + number),
            )
            for attempt in range(failed):
                Attempt.objects.create(
                    message_id=message.message_id,
                    queue_name=name,
                    number=attempt + 1,
                    failed_at=now - timedelta(minutes=number, seconds=40 - 10 * attempt),
                    worker="native@web-2:4711",
                    error="DoesNotExist",
                    detail="Customer matching query does not exist.",
                    traceback=TRACEBACK,
                )


def make_past() -> None:
    """Write the steps of the last month as they are kept, with waves of different lengths."""
    from django.utils import timezone

    from django_mq.models import Rollup
    from django_mq.stores.sql.rollups import WRITTEN

    now, rows = timezone.now(), []

    def write(begins_at: datetime, step: timedelta, key: tuple[str, str], figures: Figures) -> None:
        values = {name: getattr(figures, name) for name in WRITTEN}
        values |= {"waits": as_text(figures.waits), "runs": as_text(figures.runs)}
        length = {"seconds": int(step.total_seconds()), "minutes": step // MINUTE}
        rows.append(Rollup(begins_at=begins_at, queue_name=key[0], type=key[1], **length, **values))

    for step, kept in KEPT.items():
        for number in range(1, min(kept, timedelta(days=31)) // step):
            begins_at = begin_of(now, step) - step * number
            figures = past_of(begins_at, step, lonely=number == 23 and step == MINUTE)
            write(begins_at, step, ALL, added_up(figures.values(), beside=True))
            for key, each in figures.items():
                write(begins_at, step, key, each)
    Rollup.objects.bulk_create(rows, 1000)


def past_of(begins_at: datetime, step: timedelta, *, lonely: bool) -> dict[tuple[str, str], Figures]:
    """Return the figures of a step, of one more queue if it is ``lonely``."""
    found = {}
    minutes, day = step / timedelta(minutes=1), begins_at.timestamp() / 86400
    types = ("order.placed", "mail.welcome", "invoice.send", "report.day")
    for share, (name, type_) in enumerate(zip(("orders", "mails", "invoices", "reports"), types, strict=True), 1):
        wave = 1.4 + 0.4 * math.sin(day * 160 + share) + 0.7 * math.sin(day * 6.28 + 4) + random.random() / 2
        fails = int(3 * wave * minutes) if random.random() < 0.3 else 0
        figures = Figures(arrived=int(260 * wave / share * minutes), accepted=int(255 * wave / share * minutes))
        figures.failed, figures.dead, figures.redelivered = fails, fails // 3, fails // 2
        figures.ready, figures.claimed = int(40 * wave * wave), int(6 * wave)
        waits, runs = ([base * wave * 1.3**number for number in range(20)] for base in (0.02, 0.05 * share))
        times = max(1, figures.accepted // 20)
        figures.waits = {bucket: times * count for bucket, count in histogram_of(waits).items()}
        figures.runs = {bucket: times * count for bucket, count in histogram_of(runs).items()}
        figures.wait_seconds, figures.run_seconds = times * sum(waits), times * sum(runs)
        found[name, type_] = figures
    if lonely:
        spans = {"waits": histogram_of([0.05]), "runs": histogram_of([0.1])}
        found["thumbnails", "picture.shrink"] = Figures(arrived=33, accepted=1, **spans)
    return found


def make_the_rest() -> None:
    """Write what only ``--every`` shows: a Celery task that died, the history, results, and what Spark wrote."""
    from django.utils import timezone

    from django_mq.acts.models import Act
    from django_mq.models import (
        ArchiveBatch,
        Attempt,
        Binding,
        BulkJob,
        History,
        InsightCause,
        InsightHour,
        Message,
        Operation,
        Queue,
        TaskResult,
        WorkerSession,
    )

    now, minute = timezone.now(), timedelta(minutes=1)
    letters = Queue.objects.create(name="celery.dead")
    celery = Queue.objects.create(name="celery", max_attempts=10, dead_letter_queue=letters)
    task = {"task": "shop.invoices.tasks.send_reminder", "argsrepr": "(312,)", "kwargsrepr": "{'channel': 'mail'}"}
    origin = {"x-origin-queue": "celery", "x-origin-reason": "max attempts", "x-origin-attempts": 10}
    for number in range(3):
        given = {"level": 4, "priority": 4, "content_type": "application/json", "body": b"[[312], {}, {}]"}
        given |= {"type": task["task"], "correlation_id": str(uuid4()), "headers": task | origin}
        times = {"published_at": now - 9 * minute}
        letter = Message.objects.create(
            queue=letters, state=1, message_id=uuid4(), dead_reason="max attempts", **times, **given
        )
        for attempt in range(10):
            Attempt.objects.create(
                message_id=letter.message_id,
                correlation_id=letter.correlation_id,
                queue_name="celery",
                type=task["task"],
                number=attempt + 1,
                failed_at=now - (28 - 2 * attempt) * minute + timedelta(milliseconds=310 * number),
                worker="celery@web-1",
                error="smtplib.SMTPServerDisconnected",
                detail="Connection unexpectedly closed: the server mail.example.com has refused the sender.",
                traceback=TRACEBACK,
            )
    for number in range(60):
        begin = now - timedelta(seconds=10 * number + 5)
        History.objects.create(
            message_id=uuid4(),
            queue_name="celery" if number % 3 else "orders",
            type=task["task"] if number % 3 else "order.placed",
            priority=4,
            outcome=1,
            attempts=number % 2,
            published_at=begin - timedelta(milliseconds=340),
            ready_at=begin - timedelta(milliseconds=340),
            claimed_at=begin,
            finished_at=begin + timedelta(milliseconds=27 * number + 3),
            session_id=WorkerSession.objects.first().pk,
            redelivered=bool(number % 2),
        )
    record = {"envelope": {"task": task["task"], "args": [312], "kwargs": {"channel": "mail"}}}
    record |= {"value": {"sent": True}, "errors": [], "worker_ids": ["native@web-2:4711"]}
    for number in range(5):
        times = {"started_at": now - minute, "last_attempted_at": now - minute, "finished_at": now - 0.98 * minute}
        TaskResult.objects.create(
            message_id=uuid4(),
            successful=number != 3,
            queue_name="mails",
            record=json.dumps(record),
            expires_at=now + timedelta(days=7, minutes=number),
            **times,
        )
    fill_results(now)
    Operation.objects.create(
        act="redrive",
        filters={"queue": "invoices", "state": "3"},
        answers={},
        user_name="operator",
        newest=10**6,
        created_at=now - 3 * minute,
        beat_at=now,
        expected=48_000,
        tried=31_500,
        changed=31_498,
        status=Operation.Status.STOPPED,
    )
    Binding.objects.create(exchange="shop", exchange_type="topic", pattern="order.#", queue=celery)
    for number in range(1, 3):
        ArchiveBatch.objects.create(
            state=ArchiveBatch.State.WRITTEN,
            first_id=number,
            last_id=number * 900,
            cutoff=now,
            root="/srv/archive",
            path=f"/srv/archive/history/batch={number}-1f0c5c0e0a7b4c2d9d0a3c8b7e6f5a4d",
            days={"2026-03-02": ["877", "12345"]},
            rows=877_000,
            planned_at=now - number * 60 * minute,
            written_at=now - number * 58 * minute,
        )
    BulkJob.objects.create(key="reload of 2026-03-02", parts=8, started_at=now - 90 * minute, finished_at=now)
    hour = now.replace(minute=0, second=0, microsecond=0)
    for name in ("orders", "mails", "invoices"):
        for number in range(7 * 24):
            wave = 1.4 + math.sin(number / 4)
            values = {"arrivals": int(900 * wave), "completions": int(890 * wave), "depth_max": int(30 * wave)}
            values |= {"wait_p50": 0.02 * wave, "wait_p95": 0.3 * wave, "run_p50": 0.1, "run_p95": 0.4 * wave}
            values |= {
                "wait_histogram": {"84": 3},
                "run_histogram": {"70": 3},
                "depth_mean": 8 * wave,
                "consumers": 4,
            }
            values |= {"wait_sum": 300.0, "first_successes": int(870 * wave), "retries": 20, "fairness": 0.97}
            InsightHour.objects.create(queue_name=name, hour=hour - timedelta(hours=number), **values)
        InsightCause.objects.create(
            queue_name=name, day=hour.date(), dead=True, reason="DoesNotExist: Customer", messages=7
        )
    for number in range(6):
        Act.objects.create(
            began_at=timezone.now() - timedelta(hours=number),
            user_name="operator",
            model="queue",
            name="pause",
            about="celery",
            reason=f"the provider of mails is down, ticket {4710 + number}",
            command="python manage.py mq_pause celery",
        )


if __name__ == "__main__":
    main()
