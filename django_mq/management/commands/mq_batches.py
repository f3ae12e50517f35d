"""List, show and steer batches."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

from django.core.management.base import CommandError

from django_mq.acts import recorder
from django_mq.batches import steering
from django_mq.batches.ends import counted
from django_mq.batches.models import BatchMember, MessageBatch
from django_mq.engine.decisions.batches import BatchCallback, BatchState, MemberState
from django_mq.formats import PLAIN
from django_mq.management.arguments import WHY, UsageError, argument, at_least_one
from django_mq.management.command import MQCommand
from django_mq.management.confirmation import ask_reason
from django_mq.management.messages import is_id
from django_mq.management.tables import table
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HEADINGS = ("ID", "NAME", "STATE", *(name.upper() for name in MessageBatch.COUNTED), "BEGAN", "ENDED")
#: What is done with the batches that are named.
STEERED = ("close", "cancel", "redrive", "delete")
ACTIONS = ("list", "show", *STEERED)
#: Failed members that ``show`` prints.
MOST_SHOWN = 50
#: Members that an action changes, by their state.
CHANGED = {"cancel": MemberState.WAITING, "redrive": MemberState.FAILED}


class Command(MQCommand):
    help = (
        "List batches, the newest first, show one with its callbacks and the members that have failed, or close, "
        "cancel, redrive or delete those that are named. cancel removes the members that no worker has begun; "
        "redrive returns the dead letters of members to their queues; delete forgets batches that have ended."
    )
    exit_codes: ClassVar = {1: "refused, or there is no such batch"}
    arguments: ClassVar = (
        argument("action", nargs="?", choices=ACTIONS, default="list", help="default: list"),
        argument("ids", metavar="BATCH_ID", nargs="*", help="Which ones to show, close, cancel, ..."),
        argument("--state", choices=[state.value for state in BatchState], help="List only these."),
        argument("--limit", type=at_least_one, default=20, metavar="N", help="How many to list; default: 20."),
        argument("--running", action="store_true", help="With cancel: also stop the members that run."),
        WHY,
    )
    dry_run = "how many members cancel and redrive would try, and which batches the others would change"
    json = "a JSON array of what is listed or shown, or an object of what was done"

    def run(self, alias: str, **options: Any) -> None:
        action, ids = options["action"], _ids(options["ids"])
        if bool(ids) != (action != "list"):
            raise UsageError(f"{action} takes {'no ids' if ids else 'the ids of batches; mq_batches lists them'}.")
        if options["running"] and action != "cancel":
            raise UsageError("--running is for cancel.")
        if options["dry_run"] and action not in STEERED:
            raise UsageError(f"--dry-run is for {', '.join(STEERED)}.")
        if action == "list":
            self._list(alias, options)
            return
        rows = MessageBatch.objects.using(alias).in_bulk(ids)
        if missing := [id_ for id_ in ids if id_ not in rows]:
            raise CommandError(f"There is no batch {missing[0]}; mq_batches lists them.")
        chosen = [rows[id_] for id_ in ids]
        if action == "show":
            self._show(alias, chosen)
        elif options["dry_run"]:
            self._try(alias, action, chosen)
        else:
            self._steer(alias, action, chosen, options)

    def _list(self, alias: str, options: Mapping[str, Any]) -> None:
        found = MessageBatch.objects.using(alias).order_by("-created_at")
        if options["state"]:
            found = found.filter(state=options["state"])
        rows = list(found[: options["limit"]])
        text = table(HEADINGS, map(_row, rows), right=range(3, 7)) if rows else "There are no batches to show."
        self.answer([_object(row) for row in rows], text)

    def _show(self, alias: str, rows: Sequence[MessageBatch]) -> None:
        objects, texts = [], []
        for row in rows:
            for name, number in counted(shared_store(alias), row.pk)._asdict().items():
                setattr(row, name, number)
            members = BatchMember.objects.using(alias).filter(batch=row.pk, state=MemberState.FAILED.value)
            failed = list(members.order_by("id").values("message_id", "queue_name", "ended_at")[:MOST_SHOWN])
            published = {each.value: getattr(row, f"{each.value}_at") for each in BatchCallback}
            given = [
                each.value for each in BatchCallback if getattr(row, f"on_{each.value}") or published[each.value]
            ]
            shown = {
                "callbacks": {name: published[name] for name in given},
                "problem": row.problem,
                "failed_members": failed,
            }
            objects.append(_object(row) | shown)
            texts.append(_told(row, shown))
        self.answer(objects, "\n\n".join(texts))

    def _try(self, alias: str, action: str, rows: Sequence[MessageBatch]) -> None:
        if action in CHANGED:
            number = _number(alias, action, rows)
            self.answer({"members": number}, f"Would try {PLAIN.number(number)} members.")
        else:
            self.answer({"batches": [str(row.pk) for row in rows]}, f"Would {action} {len(rows)}.")

    def _steer(self, alias: str, action: str, rows: Sequence[MessageBatch], options: Mapping[str, Any]) -> None:
        why = options["why"]
        if action in CHANGED:
            why = ask_reason(lambda limit: _number(alias, action, rows, limit), why)
        done = {}
        for row in rows:
            answers = {"running": True} if options["running"] else {}
            act = self.new_act("messagebatch", action, about=row, reason=why, answers=answers)
            with recorder.recorded(act, using=alias):
                done[str(row.pk)] = act.sentence = self._do(alias, action, row, act, running=options["running"])
        self.answer({action: done}, "\n".join(f"{id_}: {words}" for id_, words in done.items()))

    def _do(self, alias: str, action: str, row: MessageBatch, act: Any, *, running: bool) -> str:
        perform = partial(recorder.perform, act)
        if action == "close":
            return steering.settled(row.pk, close=True, using=alias).value
        if action == "delete":
            return "deleted" if steering.delete(row.pk, using=alias) else "deleted; workers delete the rest of it"
        if action == "redrive":
            return f"{PLAIN.number(steering.redrive(row.pk, using=alias, perform=perform).changed)} redriven"
        stop_begun = partial(recorder.stop_begun, act)
        found = steering.cancel(row.pk, running=running, using=alias, perform=perform, stop_begun=stop_begun)
        words = f"{PLAIN.number(found.changed)} removed"
        return f"{words}, {PLAIN.number(found.asked)} asked to stop" if running else words


def _ids(given: Sequence[str]) -> list[UUID]:
    for text in given:
        if not is_id(text):
            raise UsageError(f"{text!r} is no id of a batch; mq_batches lists them.")
    return list(dict.fromkeys(map(UUID, given)))


def _number(alias: str, action: str, rows: Sequence[MessageBatch], limit: int | None = None) -> int:
    """Return how many members an action changes, up to a limit."""
    members = BatchMember.objects.using(alias).filter(batch__in=[row.pk for row in rows])
    return members.filter(state=CHANGED[action].value)[:limit].count()


def _row(row: MessageBatch) -> tuple[str, ...]:
    counts = map(PLAIN.number, row.counts)
    times = (PLAIN.time(moment) if moment else "" for moment in (row.created_at, row.ended_at))
    return (str(row.pk), row.name, row.state, *counts, *times)


def _object(row: MessageBatch) -> dict[str, Any]:
    return {
        "id": str(row.pk),
        "name": row.name,
        "state": row.state,
        **row.counts._asdict(),
        "created_at": row.created_at,
        "cancelled_at": row.cancelled_at,
        "ended_at": row.ended_at,
    }


def _told(row: MessageBatch, shown: Mapping[str, Any]) -> str:
    """Return a batch as text."""
    lines = [table(HEADINGS, [_row(row)], right=range(3, 7))]
    for name, at in shown["callbacks"].items():
        lines.append(f"on_{name}: {'published ' + PLAIN.time(at) if at else 'not published yet'}")
    if row.problem:
        lines.append(f"Problem: {row.problem}")
    if failed := shown["failed_members"]:
        cells = [(str(each["message_id"]), each["queue_name"], PLAIN.time(each["ended_at"])) for each in failed]
        lines += ["", table(("FAILED MESSAGE", "QUEUE", "ENDED"), cells)]
    return "\n".join(lines)
