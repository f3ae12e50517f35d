"""What runs now, for how long, and how long it usually takes: three statements, of which a quiet site needs one.

A handler has begun: what a worker has only prefetched does not run. The workers say what runs with each heartbeat,
at most 100 each, those that run for longest. Of a Celery task that was acknowledged when it began, only the worker
knows how long earlier runs took.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from django.utils.translation import gettext as _

from django_mq.delivery.operator.begun_runs import reported
from django_mq.diagnosis.state.by_type import runs
from django_mq.engine.decisions.unusual import LEAST_SECONDS, UsualRun, is_unusual, times_usual
from django_mq.formats import PLAIN
from django_mq.models import Message
from django_mq.rollups.series import SPANS
from django_mq.seams.extension import Extension
from django_mq.seams.findings import notice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from django_mq.delivery.operator.begun_runs import ReportedRun
    from django_mq.seams.findings import Finding

    #: How long messages usually run, by queue and type.
    Usual = dict[tuple[str, str], UsualRun]

#: The most findings, the most unusual ones.
MOST_FOUND: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningMessage:
    """A message that a worker handles."""

    row_id: int
    message_id: UUID
    queue: str
    type: str
    handler: str
    session_id: int
    worker: str
    seconds: float
    usual: UsualRun | None
    #: Whether its message is gone: it was acknowledged when it began, and is not tried again.
    is_acknowledged: bool = False

    @property
    def times_usual(self) -> float:
        return times_usual(self.seconds, self.usual)

    @property
    def is_unusual(self) -> bool:
        return is_unusual(self.seconds, self.usual)

    def as_object(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        usual = self.usual and self.usual._asdict()
        return {**asdict(self), "usual": usual, "times_usual": self.times_usual, "is_unusual": self.is_unusual}

    @property
    def rank(self) -> tuple[float, float]:
        """The key to sort by, the most unusual first."""
        return -self.times_usual, -self.seconds


def usual_runs(using: str) -> Usual:
    """Return how long the newest messages of each type in each queue were held."""
    return {
        (row.queue, row.type): UsualRun(row.accepted, row.held_p50, row.held_p95)
        for row in runs(SPANS["day"], using=using).rows
        if row.held_p50 is not None and row.held_p95 is not None
    }


def running_now(
    *, least_seconds: float = 0.0, usual: Callable[[str], Usual] = usual_runs, using: str
) -> list[RunningMessage]:
    """Return what runs for so long, the most unusual first, as of the last heartbeats.

    ``usual`` is asked only if something runs. A caller that asks often gives one that keeps its answer.
    """
    found = [one for one in reported(using) if one.seconds >= least_seconds]
    keys = [each.run.id for each in found if not each.run.begun]
    rows = _messages(keys, using) if keys else {}
    known = usual(using) if keys else {}
    shown = (_shown(each, rows.get(each.run.id), known) for each in found)
    return sorted((one for one in shown if one is not None), key=lambda one: one.rank)


def _shown(each: ReportedRun, row: Message | None, known: Usual) -> RunningMessage | None:
    """Return a run as it is shown; None if it has ended since the heartbeat."""
    session, run, seconds = each
    if run.begun is not None:
        message_id, queue, usual = UUID(run.begun.message_id), run.begun.queue, run.begun.usual
        kind = run.handler
    elif row is not None and (row.session_id, row.claim) == (session.pk, run.claim):
        message_id, queue, kind = row.message_id, row.queue.name, row.type
        usual = known.get((queue, kind))
    else:
        return None
    return RunningMessage(
        row_id=run.id,
        message_id=message_id,
        queue=queue,
        type=kind,
        handler=run.handler,
        session_id=session.pk,
        worker=session.name,
        seconds=seconds,
        usual=usual,
        is_acknowledged=run.begun is not None,
    )


def _messages(keys: Iterable[int], alias: str) -> dict[int, Message]:
    rows = Message.objects.using(alias).filter(pk__in=list(keys)).select_related("queue")
    columns = ("message_id", "type", "session_id", "claim", "queue__name")
    return {row.pk: row for row in rows.only(*columns).order_by()}


def unusual(*, using: str) -> list[RunningMessage]:
    """Return what runs unusually long, the most unusual first."""
    return [one for one in running_now(least_seconds=LEAST_SECONDS, using=using) if one.is_unusual]


def sentence_of(one: RunningMessage) -> str:
    """Return how long it runs, and how long it usually does."""
    return _("%(handler)s has been running for %(time)s, usually %(usual)s.") % {
        "handler": one.handler,
        "time": PLAIN.duration(one.seconds),
        "usual": PLAIN.precise(one.usual.p50 if one.usual else None),
    }


def find(alias: str) -> Iterator[Finding]:
    """Yield what runs unusually long."""
    for one in unusual(using=alias)[:MOST_FOUND]:
        words = _("To stop it, run manage.py mq_cancel --running %(id)s.")
        if one.is_acknowledged:
            words = _("To stop it, run manage.py mq_cancel --running %(id)s. It is lost then.")
        mend = words % {"id": one.message_id}
        about = _("worker %(name)s") % {"name": one.worker}
        yield notice(about, sentence_of(one), mend, message_id=one.message_id)


EXTENSION: Final = Extension(name="running", findings=(find,))
