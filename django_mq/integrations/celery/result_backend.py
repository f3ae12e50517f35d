"""The result backend for ``django-mq://``: Celery finds it by ``results.py``, which loads the apps first.

    a worker ── mark_as_done ──> the result, the count of its chord and the chord's body, in one transaction
    a program ── get() ── looks, and sleeps until a hint comes (``django_mq/results/waiting.py``)

A chord that fails, or whose broker is not in this database, is ended after the commit, by the process that has
counted the last member. If it dies before, another member that runs again does it, or a duty of a Celery worker.
"""

from __future__ import annotations

import base64
import logging
import threading
import time
from collections import UserList
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from celery import canvas as _canvas
from celery import result as _result
from celery import signals, states
from celery.app.task import Context
from celery.backends import base as _base
from celery.exceptions import ChordError
from celery.exceptions import TimeoutError as ResultTimeout
from django.db import DatabaseError, InterfaceError, connections, transaction
from kombu.exceptions import EncodeError
from kombu.serialization import loads

from django_mq import conf
from django_mq.batches.ends import member_of, note_run
from django_mq.delivery.validation import oversize
from django_mq.engine.decisions.chords import ChordEnd, retries_of
from django_mq.engine.decisions.ends import RunOutcome
from django_mq.errors import BrokerURLError, ConfigurationError, StoreError, StoreUnavailable, WaitInTransaction
from django_mq.integrations.celery.internals import keep_meta
from django_mq.integrations.celery.message import OWN_ID
from django_mq.integrations.celery.publisher import body_of, collect_members, flush_members
from django_mq.integrations.celery.url import SCHEME, check_alias, parse
from django_mq.results import chords, results, rosters, waiting
from django_mq.results.connections import forget, is_kept, keep, writing
from django_mq.results.places import NO_POSITION, AwaitedMember, MemberPlace
from django_mq.results.pruning import prune_in
from django_mq.stores.clock import clock
from django_mq.stores.connections import translating
from django_mq.stores.records import told
from django_mq.stores.registry import MEMORY, shared_store, store_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime

logger = logging.getLogger("django_mq.celery")

# The types that are known of these leave out what a backend uses.
base: Any = _base
canvas: Any = _canvas
celery_result: Any = _result

#: The content encoding of what is no text; it is stored in base64.
BINARY: Final = "binary"
#: The time between two looks of a program that hears no hints, unless ``interval`` says another.
INTERVAL_SECONDS: Final = 0.5
#: How many expired rows of each table ``cleanup`` deletes in one statement.
PRUNED: Final = 1000


class StoredTexts:
    """What is stored, as texts of Celery's serialiser."""

    # Of Celery's backend.
    encode: Any
    decode: Any
    encode_result: Any
    content_type: Any
    accept: Any
    _stored_encoding: str
    _chord_expires: float | timedelta | None

    def _packed(self, value: Any) -> str:
        """Return what the serialiser makes of a value, as text. Raises EncodeError."""
        payload = self.encode(value)
        if isinstance(payload, bytes):
            is_binary = self._stored_encoding == BINARY
            payload = base64.b64encode(payload).decode() if is_binary else payload.decode()
        return str(payload)

    def _unpacked(self, text: str, content_type: str, content_encoding: str) -> Any:
        """Return the value that was stored so. What the app does not accept is refused by Kombu."""
        if not text:
            return None
        payload: Any = base64.b64decode(text) if content_encoding == BINARY else text
        if content_type == self.content_type:
            return self.decode(payload)
        return loads(payload, content_type=content_type, content_encoding=content_encoding, accept=self.accept)

    def _member(self, request: Any, state: str, result: Any) -> dict[str, Any]:
        """Return what is stored of a member of a chord."""
        position = request.group_index
        return {
            "group_id": request.group,
            "task_id": request.id,
            "position": NO_POSITION if position is None else position,
            "status": state,
            "result": self._packed(self.encode_result(result, state)),
            "content_type": self.content_type,
            "content_encoding": self._stored_encoding,
            "expires_at": _expiry(self._chord_expires),
        }


# A pool of processes sends the first one in each process; pools of threads are in the process of the worker.
for _begun in (signals.worker_process_init, signals.worker_ready):
    _begun.connect(keep, dispatch_uid="django_mq.results.keep")
for _ended in (signals.worker_process_shutdown, signals.worker_shutdown):
    _ended.connect(forget, dispatch_uid="django_mq.results.forget")


class DatabaseResults(StoredTexts, base.Backend, base.SyncBackendMixin):  # type: ignore[misc]  # as above
    """Results in the database of the queues."""

    supports_native_join = True
    supports_autoexpire = False
    supports_result_compression = True
    supports_failure_expires = True
    persistent = True
    #: What the project says of ``max_retries``; None: it says nothing.
    _most_retries: float | None

    def __init__(self, app: Any, url: str | None = None, **kwargs: Any) -> None:
        super().__init__(app=app, url=url or f"{SCHEME}://", **kwargs)
        address = parse(self.url if "://" in self.url else None)
        check_alias(address)
        self.alias: str = address.alias or conf.load().DATABASE
        if self.alias == MEMORY:
            raise ConfigurationError(
                "Results are kept in a database, and the result backend names the memory: "
                f"write {SCHEME}:// or {SCHEME}:///ALIAS."
            )
        failures = app.conf.get("result_failure_expires")
        self._failure_expires = self.expires if failures is None else self.prepare_expires(failures)
        chords = app.conf.get("result_chord_expires")
        self._chord_expires = self.expires if chords is None else self.prepare_expires(chords)
        if not app.conf.value_set_for("result_backend_always_retry"):
            self.always_retry = True
        if not app.conf.value_set_for("result_backend_max_retries"):
            self._most_retries = None
        is_binary = getattr(self, "compression", None) or self.content_encoding == BINARY
        self._stored_encoding = BINARY if is_binary else self.content_encoding
        # The chords that this thread ends after its transaction.
        self._ending = threading.local()

    # Errors.

    @property
    def max_retries(self) -> float:
        """How often an operation is tried again while the database is away."""
        return retries_of(is_worker=is_kept()) if self._most_retries is None else self._most_retries

    @max_retries.setter
    def max_retries(self, number: float) -> None:
        self._most_retries = number  # Celery's setting, or its default

    def exception_safe_to_retry(self, exc: BaseException) -> bool:
        """Whether to try again: not in a transaction, which is broken."""
        return self._is_outage(exc) and not connections[self.alias].in_atomic_block

    def _is_outage(self, error: BaseException) -> bool:
        """Whether an error goes away by itself."""
        if not isinstance(error, (DatabaseError, InterfaceError)):
            return isinstance(error, StoreUnavailable)
        try:
            with translating(connections[self.alias]):
                raise error
        except StoreError as found:
            return isinstance(found, StoreUnavailable)

    def on_backend_retryable_error(self, exc: BaseException) -> None:  # noqa: ARG002
        connections[self.alias].close_if_unusable_or_obsolete()  # the one of a worker is closed already

    # What is stored.

    def _store_result(
        self, task_id: str, result: Any, state: str, traceback: Any = None, request: Any = None, **_: Any
    ) -> Any:
        with writing(self.alias, is_run=_is_run(request)) as store:
            results.store(store, **self._columns(task_id, result, state, traceback, request))
            if state in states.READY_STATES:
                waiting.announce(str(task_id), store)
        return result

    def _columns(self, task_id: str, result: Any, state: str, traceback: Any, request: Any) -> dict[str, Any]:
        """Return what is stored of a task. Raises EncodeError."""
        meta = self._get_result_meta(result=result, state=state, traceback=traceback, request=request)
        packed = self._packed(meta["result"])
        if problem := oversize(packed, f"The result of task {task_id}"):
            raise EncodeError(f"{problem} Store it elsewhere, and return where it is.")
        expires = self._failure_expires if state == states.FAILURE else self.expires
        return {
            "task_id": str(task_id),
            "status": state,
            "result": packed,
            "content_type": self.content_type,
            "content_encoding": self._stored_encoding,
            "traceback": None if meta["traceback"] is None else told(str(meta["traceback"])),
            "children": self._packed(meta["children"]) if meta.get("children") else "",
            "group_id": meta.get("group_id") or "",
            "parent_id": meta.get("parent_id") or "",
            "message_id": _message_id(request),
            "done_at": clock.now() if state in states.READY_STATES else None,
            "expires_at": _expiry(expires),
            **_extended(meta, self._packed),
        }

    def _get_task_meta_for(self, task_id: str) -> dict[str, Any]:
        row = results.find(str(task_id), using=self.alias)
        if row is None:
            return {"status": states.PENDING, "result": None}
        return self._meta(row)

    def _meta(self, row: Any) -> dict[str, Any]:
        """Return a stored result as Celery's other backends return theirs."""

        def unpacked(text: str) -> Any:
            return self._unpacked(text, row.content_type, row.content_encoding)

        meta = {
            "task_id": row.task_id,
            "status": row.status,
            "result": unpacked(row.result),
            "traceback": row.traceback,
            "children": unpacked(row.children) or [],
            "date_done": row.done_at.isoformat() if row.done_at else None,
        }
        meta |= {name: value for name in ("group_id", "parent_id") if (value := getattr(row, name))}
        if row.kwargs:
            meta |= {name: getattr(row, name) for name in ("name", "worker", "queue", "retries")}
            meta |= {"args": unpacked(row.args), "kwargs": unpacked(row.kwargs)}
        if row.stamps:
            stamps = unpacked(row.stamps)
            meta |= {"stamped_headers": stamps["stamped_headers"], **stamps["stamps"]}
        decoded: dict[str, Any] = self.meta_from_decoded(meta)
        return decoded

    def task_result_exists(self, task_id: str) -> bool:
        """Whether something is stored for this task."""
        return results.find(str(task_id), using=self.alias) is not None

    def _forget(self, task_id: str) -> None:
        results.forget(str(task_id), using=self.alias)

    def cleanup(self) -> None:
        """Delete what has expired."""
        while PRUNED in prune_in(self.alias, PRUNED).values():
            pass

    # Groups.

    def _save_group(self, group_id: str, result: Any) -> Any:
        results.save_group(
            using=self.alias,
            group_id=str(group_id),
            members=self._packed({"result": result.as_tuple()}),
            content_type=self.content_type,
            content_encoding=self._stored_encoding,
            expires_at=_expiry(self.expires),
        )
        return result

    def _restore_group(self, group_id: str) -> dict[str, Any] | None:
        row = results.find_group(str(group_id), using=self.alias)
        if row is None:
            return None
        meta: dict[str, Any] = self._unpacked(row.members, row.content_type, row.content_encoding)
        return meta | {"result": celery_result.result_from_tuple(meta["result"], self.app)}

    def _delete_group(self, group_id: str) -> None:
        results.delete_group(str(group_id), using=self.alias)

    # Waiting.

    def on_task_call(self, producer: Any, task_id: str) -> dict[str, Any]:  # noqa: ARG002
        """Remember the task if it is published in a transaction, which ``get`` cannot wait in."""
        connection = connections[self.alias]
        if connection.in_atomic_block:
            savepoints = set(connection.savepoint_ids)
            # The hints of the transaction are behind the first one, and want to stay the last.
            for waiting_for in reversed(connection.run_on_commit[-3:]):
                begun, callback = waiting_for[:2]
                if isinstance(callback, PublishedTasks) and begun == savepoints:
                    callback.task_ids.add(task_id)
                    break
            else:
                transaction.on_commit(PublishedTasks({task_id}), using=self.alias, robust=True)
        return {}

    def _refuse_to_wait(self, task_ids: Iterable[str]) -> None:
        """Raise WaitInTransaction if one of the tasks was published in the open transaction."""
        connection = connections[self.alias]
        if not connection.in_atomic_block:
            return
        published = [each[1].task_ids for each in connection.run_on_commit if isinstance(each[1], PublishedTasks)]
        for task_id in task_ids:
            if any(task_id in ids for ids in published):
                raise WaitInTransaction(
                    f"Task {task_id} was published in the transaction that waits for its result, so no worker "
                    "sees it before the commit. Call get() after the transaction."
                )

    def wait_for_pending(
        self, result: Any, *, callback: Any = None, propagate: bool = True, on_interval: Any = None, **options: Any
    ) -> Any:
        """Wait for the result of a task, and return it or raise its error."""
        for _, meta in self.get_many({result.id}, on_interval=on_interval, **options):
            keep_meta(result, meta)  # or it would read what is stored again
            if on_interval is not None and meta["status"] in states.EXCEPTION_STATES:
                on_interval()  # raises the error of a task before it, which says more than that of a chord's body
        return result.maybe_throw(propagate=propagate, callback=callback)

    def wait_for(self, task_id: str, **options: Any) -> Any:
        """Wait for a task, and return what is stored."""
        [(_, meta)] = self.get_many({task_id}, **options)
        return meta

    def get_many(
        self,
        task_ids: Iterable[str],
        *,
        timeout: float | None = None,
        interval: float | None = INTERVAL_SECONDS,
        on_message: Any = None,
        on_interval: Any = None,
        max_iterations: int | None = None,
        READY_STATES: frozenset[str] = states.READY_STATES,  # noqa: N803 - Celery's name
        **_: Any,
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the results of tasks as they end. Raises WaitInTransaction."""
        self._ensure_not_eager()
        wanted = {str(task_id) for task_id in task_ids}
        known = {task_id: self._cache[task_id] for task_id in wanted if self.is_cached(task_id)}
        yield from known.items()
        wanted.difference_update(known)
        if not wanted:
            return
        began, looks, is_hint = time.monotonic(), 0, True
        called_at = began
        with waiting.WAITERS.waiting_for(wanted) as pause:
            while True:
                for meta in self._ready(wanted, READY_STATES):
                    wanted.discard(meta["task_id"])
                    if on_message is not None:
                        on_message(meta)
                    yield meta["task_id"], meta
                looks += 1
                if not wanted or looks == max_iterations:
                    return
                self._refuse_to_wait(wanted)
                left = _left(timeout, began)
                # Not after each hint: it reads the results of all tasks before, such as the members of a chord.
                if on_interval is not None and (
                    not is_hint or time.monotonic() - called_at > waiting.BEAT_SECONDS
                ):
                    on_interval()
                    called_at = time.monotonic()
                is_hint = pause.wait(INTERVAL_SECONDS if interval is None else interval, left)

    def _ready(self, task_ids: set[str], ready: frozenset[str]) -> list[dict[str, Any]]:
        """Return what is stored of these tasks, as far as they have ended."""

        def look() -> list[Any]:
            return list(results.find_many(task_ids, ready, using=self.alias))

        found = [self._meta(row) for row in self._ensure_retryable(look)]
        for meta in found:
            if meta["status"] == states.SUCCESS:  # others may change: the task may be redriven
                self._cache[meta["task_id"]] = meta
        return found

    # Chords.

    def set_chord_size(self, group_id: str, chord_size: int) -> None:
        """Store how many members a chord has."""
        body = body_of(group_id)
        self._ensure_retryable(lambda: flush_members(group_id))
        packed = "" if body is None else self._packed(body)
        expires = _expiry(self._chord_expires)
        chords.begin(group_id, chord_size, body=packed, expires_at=expires, using=self.alias)

    def apply_chord(self, header_result_args: Any, body: Any, **_: Any) -> None:
        """Save the members of a chord that has groups in it: the body gets their results in this form."""
        self.ensure_chords_allowed()
        if not isinstance(header_result_args[1], UserList):  # a generator, which is not read here
            header = self.app.GroupResult(*header_result_args)
            if any(isinstance(each, celery_result.GroupResult) for each in header.results):
                header.save(backend=self)
        if _is_broker(self.app, self.alias):
            collect_members(str(header_result_args[0]), body)

    def add_to_chord(self, chord_id: str, result: Any) -> None:
        """Let a chord wait for a member more, which a task of it publishes."""
        chords.add_member(chord_id, using=self.alias)
        if _is_broker(self.app, self.alias):
            position = getattr(getattr(self.app.current_task, "request", None), "group_index", None)
            place = MemberPlace(chord_id, str(result.id), NO_POSITION if position is None else position)
            rosters.write(store_for(connections[self.alias]), chord_id, [AwaitedMember(place, [[place.task_id]])])

    def mark_as_done(
        self,
        task_id: str,
        result: Any,
        request: Any = None,
        store_result: bool = True,
        state: str = states.SUCCESS,
    ) -> None:
        """Store the result, and count the member of a chord, in one transaction."""
        is_member = bool(request and request.chord and request.group and request.id and not _elsewhere(request))
        if is_member and _is_run(request) and self._is_counted(task_id, result, request, store_result, state):
            return
        mark = partial(base.Backend.mark_as_done, self, task_id, result, request, store_result, state)
        self._together(request, mark, RunOutcome.SUCCEEDED)

    def _is_counted(self, task_id: str, result: Any, request: Any, store_result: bool, state: str) -> bool:
        """Store and count a member in few statements; return whether that was done: the last one needs more."""
        is_kept = store_result and not request.ignore_result
        columns = results.OPTIONAL | self._columns(
            task_id, self.encode_result(result, state), state, None, request
        )
        member = self._member(request, state, result)
        expiry = member["expires_at"]

        def attempt() -> bool:
            with writing(self.alias, is_run=True) as store:
                if not store.database.private or not store.results.store_and_count(
                    columns, is_kept=is_kept, member=member, keep_until=chords.keep_until(expiry)
                ):
                    return False
                if is_kept:
                    waiting.announce(str(task_id), store)
                return True

        return bool(self._ensure_retryable(attempt))

    def mark_as_failure(  # noqa: PLR0917 - Celery's arguments
        self,
        task_id: str,
        exc: BaseException,
        traceback: Any = None,
        request: Any = None,
        store_result: bool = True,
        call_errbacks: bool = True,
        state: str = states.FAILURE,
    ) -> None:
        """Store the failure, and count the member of a chord, in one transaction; then call what is linked."""
        options = {"store_result": store_result, "call_errbacks": False, "state": state}
        mark = partial(base.Backend.mark_as_failure, self, task_id, exc, traceback, request, **options)
        self._together(request, mark, RunOutcome.FAILED)
        if request and call_errbacks and request.errbacks:
            self._call_task_errbacks(request, exc, traceback)

    def mark_as_revoked(self, task_id: str, reason: str = "", request: Any = None, **kwargs: Any) -> None:
        """Store that a task was revoked, and count the member of a chord, in one transaction."""
        mark = partial(base.Backend.mark_as_revoked, self, task_id, reason, request, **kwargs)
        self._together(request, mark, RunOutcome.REVOKED)

    def _together(self, request: Any, mark: Callable[[], None], outcome: RunOutcome | None = None) -> None:
        member = _elsewhere(request) if outcome is not None else None
        if not request or not (request.chord or getattr(request, "chain", None) or member):
            mark()
            return
        endings: list[tuple[str, Any]] = []

        def attempt() -> None:
            endings.clear()
            with _noting(self._ending, endings), transaction.atomic(using=self.alias):
                mark()
                if member is not None and outcome is not None:
                    note_run(shared_store(self.alias), member, outcome)

        self._ensure_retryable(attempt)
        for group_id, body in endings:
            self.finish_chord(group_id, body)

    def on_chord_part_return(self, request: Any, state: str, result: Any, **_: Any) -> None:
        """Count a member of a chord that has ended. The last one ends the chord."""
        group_id = request.group
        if not (group_id and request.id and request.chord):
            return
        endings = getattr(self._ending, "chords", None)
        if endings is None:
            self._together(request, lambda: self.on_chord_part_return(request, state, result))
            return
        has_failed = state in states.PROPAGATE_STATES
        verdict = chords.count(has_failed=has_failed, using=self.alias, **self._member(request, state, result))
        if (
            verdict is ChordEnd.PUBLISH
            and _is_broker(self.app, self.alias)
            and self._publish_body(group_id, request.chord)
        ):
            chords.end(group_id, using=self.alias)
        elif verdict in (ChordEnd.PUBLISH, ChordEnd.FAIL):
            chords.carry(group_id, self._packed(request.chord), using=self.alias)
            endings.append((group_id, request.chord))

    def _publish_body(self, group_id: str, body: Any) -> bool:
        """Publish the body in the open transaction; return whether that was possible."""
        try:
            with transaction.atomic(using=self.alias):
                callback = canvas.maybe_signature(body, app=self.app)
                callback.delay(self._results_of(group_id))
        except Exception:
            logger.exception("The body of chord %s cannot be published with its last result.", group_id)
            return False
        return True

    def finish_chord(self, group_id: str, body: Any) -> None:
        """End a chord whose end is decided: publish its body, or fail it."""
        callback = canvas.maybe_signature(body, app=self.app)
        try:
            try:
                values = self._results_of(group_id)
            except ChordError:
                raise
            except Exception as error:
                raise ChordError(f"Join error: {error!r}") from error
            try:
                callback.delay(values)
            except Exception as error:
                raise ChordError(f"Callback error: {error!r}") from error
        except ChordError as error:
            logger.exception("Chord %r has failed.", group_id)
            self.chord_error_from_stack(callback, error)
            # The body does not run, so no task counts it.
            if (member := _as_member(callback)) is not None:
                self.on_chord_part_return(member, states.FAILURE, error)
        chords.end(group_id, using=self.alias)

    def finish_abandoned(self, limit: int) -> int:
        """End chords whose process has died before it could; return how many."""
        abandoned = chords.take_abandoned(limit, using=self.alias)
        for chord in abandoned:
            self.finish_chord(chord.group_id, self._unpacked(chord.body, self.content_type, self._stored_encoding))
        return len(abandoned)

    def _results_of(self, group_id: str) -> list[Any]:
        """Return the results of the members, in their places and groups. Raises ChordError for a failed one."""
        values = []
        for member in chords.members_of(group_id, using=self.alias):
            value = self._unpacked(member.result, member.content_type, member.content_encoding)
            if member.status in states.EXCEPTION_STATES:
                value = self.exception_to_python(value)
            if member.status in states.PROPAGATE_STATES:
                error = ChordError(f"Dependency {member.task_id} raised {value!r}")
                raise error from (value if isinstance(value, BaseException) else None)
            values.append(value)
        header = celery_result.GroupResult.restore(group_id, backend=self, app=self.app)
        if header is None:
            return values
        header.on_ready()  # or it would wait
        with celery_result.allow_join_result():
            joined: list[Any] = header.join_native(timeout=self.app.conf.result_chord_join_timeout, propagate=True)
        return joined

    def __reduce__(self, args: Any = (), kwargs: Any = None) -> Any:
        return super().__reduce__(args, {**(kwargs or {}), "expires": self.expires, "url": self.url})


class PublishedTasks:
    """Which tasks a transaction has published. It waits for the commit, and goes with a rollback."""

    def __init__(self, task_ids: set[str]) -> None:
        self.task_ids = task_ids

    def __call__(self) -> None:
        """Do nothing: after the commit, workers see the tasks."""


def _is_run(request: Any) -> bool:
    """Whether a worker runs the task for a message."""
    return request is not None and not (request.called_directly or request.is_eager)


def _elsewhere(request: Any) -> UUID | None:
    """Return the member of a batch that a task is whose message another broker has delivered; None for others."""
    if not _is_run(request) or _message_id(request) is not None:
        return None  # the message of the database ends the member
    return member_of(getattr(request, "headers", None))


def _as_member(callback: Any) -> Context | None:
    """Return the request that the body of a chord has if it is a member of another chord; None if it is not."""
    options = callback.options
    if not options.get("chord") or not options.get("task_id"):
        return None
    request = Context(callback)
    request.update(options, id=options["task_id"], group=options.get("group_id"))
    return request


def _left(timeout: float | None, began: float) -> float | None:
    """Return how long a program may still wait; raises Celery's TimeoutError if it may not."""
    left = None if timeout is None else timeout - (time.monotonic() - began)
    if left is not None and left <= 0:
        raise ResultTimeout("The operation timed out.")
    return left


def _message_id(request: Any) -> UUID | None:
    """Return the id of the message that a task runs for; None with other brokers."""
    properties = getattr(request, "properties", None) or {}
    found = properties.get(OWN_ID)
    return UUID(found) if found else None


def _expiry(seconds: float | timedelta | None) -> datetime | None:
    """Return when a result expires that is stored now; None if it does not."""
    if isinstance(seconds, timedelta):
        seconds = seconds.total_seconds()
    return clock.now() + timedelta(seconds=seconds) if seconds else None


def _extended(meta: dict[str, Any], packed: Callable[[Any], str]) -> dict[str, Any]:
    """Return the columns of ``result_extended``."""
    if "kwargs" not in meta:
        return {}
    stamped = {name: meta.get(name) for name in meta.get("stamped_headers") or ()}
    return {
        "name": meta["name"] or "",
        "args": packed(meta["args"]),
        "kwargs": packed(meta["kwargs"]),
        "worker": meta["worker"] or "",
        "queue": meta["queue"] or "",
        "retries": meta["retries"],
        "stamps": packed({"stamped_headers": list(stamped), "stamps": stamped}) if stamped else "",
    }


@contextmanager
def _noting(place: Any, endings: list[tuple[str, Any]]) -> Iterator[None]:
    """Let the chords of this thread that end after the transaction be noted in a list."""
    before = getattr(place, "chords", None)
    place.chords = endings
    try:
        yield
    finally:
        place.chords = before


def _is_broker(app: Any, alias: str) -> bool:
    """Whether the broker of an app is in this database, so that a message commits with a result."""
    url = app.conf.broker_write_url or app.conf.broker_url
    if isinstance(url, list | tuple):
        url = url[0] if url else ""
    first = str(url or "").split(";")[0]
    if not first.startswith(f"{SCHEME}://"):
        return False
    try:
        found = parse(first).alias
    except BrokerURLError:
        return False
    return (found or conf.load().DATABASE) == alias
