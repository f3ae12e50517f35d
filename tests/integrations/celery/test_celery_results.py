"""What django-celery-results has stored is copied: once, and only what has ended."""

from __future__ import annotations

import json
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from celery import Celery, states
from celery.app.task import Context
from celery.result import AsyncResult, GroupResult
from django.apps import apps
from django.contrib.admin import site
from django.core.management import CommandError, call_command
from django.db import connections
from django.test import override_settings
from django.utils import timezone

from django_mq.integrations.celery import celery_results
from django_mq.results import waiting
from django_mq.results.models import Chord, ChordMember, ResultGroup, StoredResult

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django import Settings


@pytest.fixture
def old(committed_database: str, settings: Settings) -> Iterator[Any]:
    """The backend of django-celery-results, with its tables in the database of the queues."""
    pytest.importorskip("django_celery_results.apps")
    alias = OldRouter.alias = committed_database
    settings.DATABASE_ROUTERS = [f"{__name__}.OldRouter", *settings.DATABASE_ROUTERS]
    installed = [*settings.INSTALLED_APPS, "django_celery_results"]
    with override_settings(INSTALLED_APPS=installed):
        models = list(apps.get_app_config("django_celery_results").get_models())
        with connections[alias].schema_editor() as editor:
            for model in models:
                editor.create_model(model)
        with Celery("old", broker="memory://", backend="django-db", set_as_current=False) as app:
            app.conf.result_extended = True
            yield app.backend
        with connections[alias].schema_editor() as editor:
            for model in models:
                editor.delete_model(model)
    # Its admin has registered them when the app was installed; no other test has the app.
    site.unregister([model for model in models if site.is_registered(model)])


def fill(alias: str = "default") -> None:
    """Make the tables as they are read, with a result."""
    rows = (celery_results.CeleryTaskRow, celery_results.CeleryGroupRow, celery_results.CeleryChordRow)
    with connections[alias].schema_editor() as editor:
        for model in rows:
            editor.create_model(model)
    stored = {"content_type": "application/json", "content_encoding": "utf-8", "result": "3"}
    rows[0].objects.using(alias).create(
        id=1, task_id="of the old backend", status="SUCCESS", date_done=timezone.now(), **stored
    )


class OldRouter:
    """Sends the models of the package to the database of the test."""

    alias = "default"

    def db_for_read(self, model: Any, **_: Any) -> str | None:
        return self.alias if model._meta.app_label == "django_celery_results" else None

    db_for_write = db_for_read


@pytest.fixture
def app(url: str) -> Iterator[Celery]:
    """An app with results in the database of the queues."""
    with Celery("new", broker=url, backend=url, set_as_current=False) as made:
        yield made
    waiting.WAITERS.close()


def run(*arguments: str, **options: Any) -> dict[str, Any]:
    out = StringIO()
    call_command("mq_results", "import-celery-results", *arguments, "--json", stdout=out, **options)
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


def request(task_id: str, **more: Any) -> Context:
    given = {"task": "note", "argsrepr": "(1,)", "kwargsrepr": "{}", "hostname": "w@here"}
    return Context(id=task_id, **given | more)


@pytest.mark.parametrize("chunk", [1, 500])
def test_results_and_groups_are_read_here_as_they_were_there(
    old: Any, app: Celery, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(celery_results, "CHUNK", chunk)
    parent = request("done")
    parent.children.append(old.app.AsyncResult("child"))
    old.store_result("done", {"a": [1, None]}, states.SUCCESS, request=parent)
    old.store_result("failed", ValueError("no", 3), states.FAILURE, traceback="line 1", request=request("failed"))
    old.store_result("runs", {"page": 2}, "PROGRESS")
    old.app.GroupResult("g", [old.app.AsyncResult("done"), old.app.AsyncResult("failed")]).save(backend=old)
    app.backend.store_result("failed", "newer", states.SUCCESS)

    planned = run("--dry-run")
    assert StoredResult.objects.using(app.backend.alias).count() == 1
    first, second = run(), run()

    assert planned == first
    counts = [(each["results"]["imported"], each["results"]["known"]) for each in (first, second)]
    assert counts == [(1, 1), (0, 2)]
    assert list(first["results"]["left"]) == ["runs"]
    assert [each["groups"]["imported"] for each in (first, second)] == [1, 0]
    done = AsyncResult("done", app=app)
    assert (done.state, done.result, done.name, done.worker) == (
        states.SUCCESS,
        {"a": [1, None]},
        "note",
        "w@here",
    )
    assert done.children == [app.AsyncResult("child")]
    assert done.date_done == old.app.AsyncResult("done").date_done
    assert AsyncResult("failed", app=app).result == "newer"
    restored = GroupResult.restore("g", app=app)
    assert [each.id for each in restored.results] == ["done", "failed"]

    old.store_result("runs", [2], states.SUCCESS)
    assert run()["results"]["imported"] == 1
    assert AsyncResult("runs", app=app).get(timeout=1) == [2]


def test_a_failure_and_a_binary_result_are_read_here(old: Any, app: Celery) -> None:
    boom = ValueError("no", 3)
    old.store_result("failed", boom, states.FAILURE, traceback="line 1", request=request("failed"))
    with Celery("pickling", broker="memory://", backend="django-db", set_as_current=False) as pickling:
        pickling.conf.update(result_serializer="pickle", accept_content=["pickle", "json"])
        pickling.backend.store_result("pickled", {1, 2}, states.SUCCESS)
        pickling.GroupResult("g", [pickling.AsyncResult("pickled")]).save(backend=pickling.backend)

        done = run()

        url = app.conf.result_backend
        with Celery("reading", broker=url, backend=url, set_as_current=False) as reading:
            reading.conf.update(result_serializer="pickle", accept_content=["pickle", "json"])
            assert AsyncResult("pickled", app=reading).result == {1, 2}
    failed = AsyncResult("failed", app=app)
    assert (failed.state, str(failed.result), failed.traceback) == (states.FAILURE, "('no', 3)", "line 1")
    assert "from JSON only" in done["groups"]["left"]["g"]


def test_what_has_expired_is_left(old: Any, app: Celery) -> None:
    old.store_result("t", 1, states.SUCCESS)

    assert run("--keep-days", "0.00000001")["results"] == {
        "imported": 0,
        "known": 0,
        "expired": 1,
        "left": {},
        "left_in_all": 0,
    }
    assert not StoredResult.objects.using(app.backend.alias).exists()


def test_a_chord_that_has_begun_there_ends_here(old: Any, app: Celery) -> None:
    app.task(name="add_up", shared=False)(sum)
    members = [old.app.AsyncResult(name) for name in ("a", "b", "c")]
    for name, header in {"g": members, "lost": members, "nested": [old.app.GroupResult("n", members)]}.items():
        old.apply_chord(old.app.GroupResult(name, header), {"chord_size": len(header)})
    body = app.signature("add_up", task_id="body")

    def end(backend: Any, task_id: str, value: int, group: str) -> None:
        member = request(task_id, group=group, chord=body, group_index="abc".index(task_id))
        backend.mark_as_done(task_id, value, member)

    end(old, "b", 2, "g")
    first, second = run(), run()

    assert (first["chords"]["imported"], second["chords"]["known"]) == (1, 1)
    assert "1 results are stored" in first["chords"]["left"]["lost"]
    assert "are groups" in first["chords"]["left"]["nested"]
    alias = app.backend.alias
    chord = Chord.objects.using(alias).get()
    assert (chord.size, chord.counted, chord.failed) == (3, 1, 0)
    end(app.backend, "c", 3, "g")
    assert ChordMember.objects.using(alias).count() == 2
    end(app.backend, "a", 1, "g")

    assert Chord.objects.using(alias).get().ended_at is not None
    assert not ChordMember.objects.using(alias).exists()
    with app.connection_for_read() as connection:
        message = connection.default_channel.basic_get("celery", no_ack=True)
    assert json.loads(message.body)[0] == [[1, 2, 3]]


def test_a_database_without_the_tables_is_refused(database: str) -> None:
    with pytest.raises(CommandError, match="no tables of django-celery-results"):
        run(database=database)


def test_results_are_listed_and_forgotten_by_their_ids(app: Celery) -> None:
    app.backend.store_result("a", {"page": 1}, states.SUCCESS)
    app.backend.store_result("b", 2, states.SUCCESS)
    alias = app.backend.alias

    def answer(*arguments: str) -> str:
        out = StringIO()
        call_command("mq_results", *arguments, database=alias, stdout=out)
        return out.getvalue()

    assert '{"page": 1}' in answer()
    assert json.loads(answer("list", "b", "--json"))[0]["task_id"] == "b"
    assert "1 result forgotten" in answer("forget", "a", "unknown")
    assert [row.task_id for row in StoredResult.objects.using(alias).all()] == ["b"]
    assert "no results" in answer("list", "a")
    for wrong in (["forget"], ["import-celery-results", "a"], ["list", "--dry-run"], ["list", "--keep-days", "1"]):
        with pytest.raises(CommandError):
            answer(*wrong)
    assert not ResultGroup.objects.using(alias).exists()
