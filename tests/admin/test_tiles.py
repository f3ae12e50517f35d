"""The tiles at the top of the overview: each figure is that of a plain count, beside the same time yesterday."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.urls import reverse
from django.utils import timezone

from django_mq import models
from django_mq.acts.models import Act
from django_mq.alerts.models import RecordedAlert
from django_mq.alerts.observed import standing
from django_mq.models import Attempt, Deploy, History, Message, Queue, WorkerSession
from django_mq.periodic.models import PeriodicMessage, PeriodicRun
from django_mq.rollups.duty import sum_up
from django_mq.seams.extension import Extension
from django_mq.seams.tiles import Tile, Unit
from django_mq.stores.registry import shared_store
from django_mq.tiles.models import TileMinute
from django_mq.tiles.sampler import prune, sample
from tests.admin.conftest import list_of, page_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client
    from pytest_django import DjangoAssertNumQueries, Settings

    from tests.admin.conftest import Make

SCHEDULED, READY, CLAIMED, DEAD, PARKED = Message.Status
OVERVIEW = "admin:django_mq_queue_overview"
SCRIPT = "<script>x</script>"
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


def tiles(client: Client) -> dict[str, dict[str, Any]]:
    return {tile["name"]: tile for tile in client.get(reverse(f"{OVERVIEW}_json")).json()["tiles"]}


def texts(client: Client) -> dict[str, Any]:
    return {each.tile.name: each for each in client.get(reverse(OVERVIEW)).context["tiles"]}


def last_minute() -> datetime:
    """Return the last minute that is summed up by now, also in its first seconds."""
    return datetime.now(UTC).replace(second=0, microsecond=0) - 2 * MINUTE


def a_busy_site(make: Make) -> None:
    """Write messages in all states, workers, and what finished and failed in the last minute."""
    orders, mails, idle = make.queue("orders"), make.queue("mails"), make.queue("idle", paused=True)
    now, minute = timezone.now(), last_minute()
    for queue, age in ((orders, 40), (orders, 400), (mails, 20), (idle, 4000)):
        make.message(READY, queue, published_at=now - timedelta(seconds=age))
    deaths = [make.message(DEAD, queue, dead_at=now) for queue in (orders, orders, mails)]
    known = models.AcknowledgedLetter(row_id=deaths[0].pk, dead_at=deaths[0].dead_at, reason="known")
    known.acknowledged_at = now
    known.save()
    for number in range(12):
        times = {"published_at": minute, "ready_at": minute, "claimed_at": minute + timedelta(seconds=1)}
        make.history(type="shop.report", finished_at=minute + timedelta(seconds=2 + number), **times)
    for number in range(5):
        make.attempt(failed_at=minute + timedelta(seconds=number), number=2)
    session = make.session(busy=3, slots=4, queues=["orders"])
    make.session("gone@host", busy=9, slots=9, late=True)
    held = [
        make.message(CLAIMED, orders, type="shop.report", session=session, claim=number, claimed_at=now)
        for number in range(2)
    ]
    session.running = [[held[0].pk, 0, "shop.report", 1320.0], [held[1].pk, 1, "shop.report", 2.0]]
    session.save()


def test_every_figure_is_that_of_a_plain_count(site: str, browse: Client, make: Make) -> None:
    a_busy_site(make)
    sum_up(shared_store(site), 1000)

    found = tiles(browse)

    ready = Message.objects.filter(state=READY, queue__paused=False).order_by("published_at")
    waited = (timezone.now() - ready[0].published_at).total_seconds()
    assert found["waiting"]["value"] == pytest.approx(waited, abs=60)
    assert (found["waiting"]["note"], found["waiting"]["bad"]) == (ready[0].queue.name, True)
    known = models.Rollup.objects.filter(seconds=60, queue_name="").count()
    minutes = min(known, 5) * 60
    for name, rows in (("throughput", History), ("failures", Attempt)):
        assert found[name]["value"] == pytest.approx(rows.objects.count() / minutes)
        assert max(value or 0 for value in found[name]["values"]) == pytest.approx(rows.objects.count() / 60)
    dead = Message.objects.filter(state=DEAD)
    acknowledged = models.AcknowledgedLetter.objects.values("row_id")
    assert found["dead"]["of"] == dead.count()
    assert found["dead"]["value"] == dead.exclude(pk__in=acknowledged).count()
    alive = WorkerSession.objects.filter(deadline__gte=timezone.now())
    assert found["slots"]["value"] == sum(session.busy for session in alive)
    assert found["slots"]["of"] == sum(session.slots for session in alive)
    usual = max((row.finished_at - row.claimed_at).total_seconds() for row in History.objects.all())
    running = [seconds for session in alive for *_, seconds in session.running or ()]
    assert found["long_running"]["value"] == sum(seconds > 60 and seconds > 5 * usual for seconds in running)
    assert found["long_running"]["note"] == "shop.report"


def test_a_minute_of_the_tiles_is_noted_once_shown_as_their_past_and_deleted_when_old(
    site: str, browse: Client, make: Make
) -> None:
    a_busy_site(make)
    store = shared_store(site)
    old = TileMinute.objects.create(begins_at=last_minute() - timedelta(days=3))

    assert sample(store, 1000) == 1
    noted_again = sample(store, 1000)

    minutes = TileMinute.objects.exclude(pk=old.pk)
    assert minutes.count() == 1 + noted_again  # a minute may have ended between
    noted = minutes.earliest("begins_at").figures
    assert noted == {"dead": 2, "slots": 3, "long_running": 1, "waiting": pytest.approx(400, abs=300)}
    assert tiles(browse)["dead"]["values"][-1] == 2
    assert prune(store, 1000) == 1
    assert not TileMinute.objects.filter(pk=old.pk).exists()


def test_each_tile_stands_beside_the_same_time_yesterday(site: str, browse: Client, make: Make) -> None:
    make.message(DEAD, dead_at=timezone.now())
    assert {each.yesterday for each in texts(browse).values()} == {"no figures of yesterday"}
    minute = last_minute()
    for ago in range(8):
        figures = {"dead": 4, "slots": 0, "waiting": 125.0}
        TileMinute.objects.create(begins_at=minute - DAY - ago * MINUTE, figures=figures)
        models.Rollup.objects.create(begins_at=minute - DAY - ago * MINUTE, queue_name="", accepted=90)
        models.Rollup.objects.create(begins_at=minute - ago * MINUTE, queue_name="", accepted=0)
        models.Rollup.objects.create(begins_at=minute - ago * MINUTE, queue_name="orders", accepted=30 * 60)

    found = texts(browse)

    assert {name: each.yesterday for name, each in found.items()} == {
        "waiting": "yesterday 2 min 5 s (\N{MINUS SIGN}2 min 5 s)",
        "throughput": "yesterday 1.5/s (+28.5/s)",
        "failures": "as yesterday",
        "dead": "yesterday 4 (\N{MINUS SIGN}3)",
        "slots": "as yesterday",
        "long_running": "no figures of yesterday",
    }
    assert found["dead"].dots.startswith("M600.0")
    assert found["throughput"].line.count("L") >= 5
    assert found["dead"].ghost.count("L") >= 5


def test_a_user_sees_no_tile_of_what_the_user_may_not_view(
    site: str, login_with: Callable[..., Client], make: Make
) -> None:
    a_busy_site(make)
    client = login_with("view_queue")

    assert set(tiles(client)) == {"waiting", "throughput"}
    page = client.get(reverse(OVERVIEW)).content.decode()
    assert 'id="tile-waiting"' in page
    assert 'id="tile-dead"' not in page


def of_the_shop(alias: str) -> list[Tile]:
    stock = Tile(name="stock", title=SCRIPT, value=Queue.objects.using(alias).count(), note=SCRIPT, bad=True)
    return [stock, Tile(name="speed", title="Speed", value=None, unit=Unit.RATE, model="nothing")]


def broken(alias: str) -> list[Tile]:
    return [Tile(name="x", title="x", value=Queue.objects.using(alias).get(name="nowhere").pk)]


SHOP = Extension(name="shop", tiles=(of_the_shop,))
BROKEN = Extension(name="broken", tiles=(broken,))


def test_extensions_add_tiles_and_a_broken_one_leaves_the_others(
    site: str, settings: Settings, browse: Client, make: Make
) -> None:
    names = [f"{__name__}.BROKEN", f"{__name__}.SHOP"]
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "EXTENSIONS": names}
    make.queue()
    given = {"queue": "orders", "cron": "0 3 * * *", "created_at": timezone.now()}
    for name, outcome in (("a", "dead"), ("b", "succeeded"), ("c", None)):
        row = PeriodicMessage.objects.create(name=name, **given)
        if outcome:
            due = timezone.now() - timedelta(hours=1)
            PeriodicRun.objects.create(periodic=row, due_at=due, outcome=outcome, message_id=uuid4())

    found = tiles(browse)

    assert [name for name in found if "_" in name] == [
        "long_running",
        "shop_stock",
        "shop_speed",
        "periodic_failed",
    ]
    assert (found["periodic_failed"]["value"], found["periodic_failed"]["of"]) == (1, 3)
    sample(shared_store(site), 1000)
    assert TileMinute.objects.earliest("begins_at").figures["shop_stock"] == 1
    page = browse.get(reverse(OVERVIEW)).content.decode()
    assert 'id="tile-shop_stock"' in page
    assert SCRIPT not in page


def an_alert(cause: str, about: str, *, began_at: datetime) -> None:
    given = {"cause": cause, "about": about, "level": "problem", "sentence": "x", "seen_at": began_at}
    RecordedAlert.objects.create(**given, began_at=began_at, standing=standing(cause, about))


def test_an_alert_says_since_when_and_what_happened_shortly_before(
    site: str, login_with: Callable[..., Client], make: Make
) -> None:
    make.message(DEAD)
    began = timezone.now() - timedelta(hours=2)
    an_alert("dead", "orders", began_at=began)
    Deploy.objects.create(version="2026.1", first_at=began - 5 * MINUTE)
    Deploy.objects.create(version="2025.9", first_at=began - timedelta(hours=1))
    given = {"user_name": "ann", "interface": "admin", "model": "queue", "name": "change"}
    for about, time in (("orders", -2 * MINUTE), ("mails", -MINUTE), ("orders", MINUTE)):
        Act.objects.create(**given, about=about, sentence=f"Set {SCRIPT} of {about}", began_at=began + time)
    page = login_with("view_queue", "view_act").get(reverse(OVERVIEW))

    [cause] = page.context["causes"]
    [alert] = cause.alerts
    assert alert["since"] == began
    assert [change.label for change, _ago, _address in alert["changed"]] == [
        f"orders: Set {SCRIPT} of orders",
        "deploy: 2026.1",
    ]
    assert SCRIPT not in page.content.decode()
    assert "2 h ago" in page.content.decode()
    assert "(ann, " in page.content.decode()


def test_without_the_permission_to_view_acts_no_act_is_named(
    site: str, login_with: Callable[..., Client], make: Make
) -> None:
    make.message(DEAD)
    began = timezone.now() - timedelta(hours=2)
    an_alert("dead", "orders", began_at=began)
    given = {"user_name": "ann", "interface": "admin", "model": "queue", "name": "change", "about": "orders"}
    Act.objects.create(**given, sentence="secret", began_at=began - MINUTE)

    assert "secret" not in login_with("view_queue").get(reverse(OVERVIEW)).content.decode()


def test_one_act_beside_an_alert_resolves_it_and_leads_back(site: str, browse: Client, make: Make) -> None:
    queue = make.queue(paused=True)
    make.message(DEAD, queue)
    here = f"{reverse(OVERVIEW)}?span=day"
    page = browse.get(here).content.decode()
    assert f'action="{here}"' in page
    for name in ("resume", "redrive"):
        assert f'name="action" value="{name}"' in page

    asked = browse.post(here, {"action": "redrive", "_selected_action": [queue.pk]})
    assert asked.status_code == 200
    assert Message.objects.get().state == DEAD
    done = browse.post(here, {"action": "redrive", "_selected_action": [queue.pk], "confirmed": "yes"})
    assert (done.status_code, done["Location"]) == (302, here)
    assert Message.objects.get().state == READY
    browse.post(here, {"action": "resume", "_selected_action": [queue.pk]})
    assert not Queue.objects.get().paused


def test_a_user_without_the_permission_finds_no_button_and_cannot_post(
    site: str, login_with: Callable[..., Client], make: Make
) -> None:
    queue = make.queue(paused=True)
    client = login_with("view_queue")

    assert 'value="resume"' not in client.get(reverse(OVERVIEW)).content.decode()
    client.post(reverse(OVERVIEW), {"action": "resume", "_selected_action": [queue.pk]})
    assert Queue.objects.get().paused


def test_idle_queues_are_folded_and_very_many_are_a_map(
    site: str, browse: Client, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle, late = make.queue("idle"), make.queue("late")
    make.message(READY, late, published_at=timezone.now() - timedelta(hours=1))
    for name in ("a", "b", SCRIPT):
        make.message(READY, make.queue(name))

    few = browse.get(reverse(OVERVIEW))

    assert [row.state.name for row in few.context["idle_rows"]] == ["idle"]
    assert few.context["cells"] == []
    assert f'id="queue-idle-{idle.pk}"' in few.content.decode()
    assert "1 idle queue<" in few.content.decode()

    for name in ("MOST_ROWS", "ROWS_BESIDE_MAP"):
        monkeypatch.setattr(f"django_mq.admin.overview.page.{name}", 2)
    many = browse.get(reverse(OVERVIEW))
    text = many.content.decode()

    assert [row.state.name for row in many.context["cells"]] == sorted(["a", "b", SCRIPT, "idle", "late"])
    assert many.context["shown_rows"][0].state.name == "late"
    assert len(many.context["shown_rows"]) == 2
    assert many.context["idle_rows"] == []
    assert f'id="queue-cell-{late.pk}"' in text
    assert 'title="late: problem, oldest: 1 h, 1 ready"' in text
    assert SCRIPT not in text


def test_the_page_takes_as_many_statements_for_305_queues(
    site: str, browse: Client, make: Make, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    queues = Queue.objects.bulk_create([Queue(name=f"q{number:03}") for number in range(305)])
    queues = list(Queue.objects.order_by("name"))
    for queue in queues[:40]:
        make.message(READY, queue, published_at=timezone.now() - timedelta(hours=1))
        an_alert("unserved", queue.name, began_at=timezone.now() - timedelta(minutes=50))
        Deploy.objects.create(version=queue.name, first_at=timezone.now() - timedelta(minutes=55))
    browse.get(reverse(OVERVIEW))

    with django_assert_max_num_queries(26):
        page = browse.get(reverse(OVERVIEW))

    [cause] = page.context["causes"]
    assert (len(cause.alerts), cause.count, len(cause.named), cause.left) == (3, 40, 37, 0)
    assert f'href="{page_of(queues[39])}"' in page.content.decode()
    assert f'href="{list_of("workersession")}">Workers' in page.content.decode()
