"""The RabbitMQ of ``--through``: whether it can be reached, and what went through it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mq.engine.decisions.bridges import told, without_credentials
from django_mq.models import History
from django_mq.results.models import StoredResult
from kombu import Connection

from library.demo.errors import DemoFailed
from library.models import SourceFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType
    from typing import Self

#: The queue there, as the bridge in the settings names it.
QUEUE = "library.index"
SCHEMES = ("amqp://", "amqps://", "pyamqp://")
CONNECT_SECONDS = 5.0
HELP = (
    "Start a RabbitMQ, or correct --through amqp://USER:PASSWORD@HOST:PORT/VHOST. Without it, no server is needed."
)


class RabbitMQ:
    """The broker that the tasks go to. It is left without the queue of the demo."""

    def __init__(self, url: str, *, keep: bool) -> None:
        self._url = url
        self._keep = keep
        #: The URL without user and password.
        self.shown = without_credentials(url)

    def __enter__(self) -> Self:
        """Connect once, and remove what an earlier run has left. Raises DemoFailed."""
        if not self._url.startswith(SCHEMES):
            raise DemoFailed(f"--through {self.shown} is not the URL of a RabbitMQ. {HELP}")
        if not self._keep:
            self._delete()
        else:
            self._ask(lambda _: None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self._delete()

    def _delete(self) -> None:
        self._ask(lambda channel: channel.queue_delete(QUEUE))

    def _ask(self, question: Callable[[Any], object]) -> None:
        try:
            with Connection(self._url, connect_timeout=CONNECT_SECONDS) as connection:
                question(connection.default_channel)
        except Exception as error:  # noqa: BLE001 - each reason is said, without the password
            words = told(error, self._url)
            raise DemoFailed(f"RabbitMQ at {self.shown} cannot be reached: {words}. {HELP}") from None

    def report(self, *, is_whole: bool) -> Iterator[str]:
        """Yield what was forwarded, run and stored. Raises DemoFailed if something is missing, in a whole run."""
        files = SourceFile.objects.count()
        broken = SourceFile.objects.filter(status=SourceFile.Status.BROKEN).count()
        forwarded = History.objects.filter(queue_name="index", outcome=History.Outcome.FORWARDED).count()
        results = StoredResult.objects.filter(name="library.tasks.index_file")
        succeeded = results.filter(status="SUCCESS")
        workers = ", ".join(sorted(set(succeeded.values_list("worker", flat=True)))) or "none"
        yield f"  forwarded    {forwarded:>8,} tasks, each confirmed by RabbitMQ"
        yield f"  run          {succeeded.count() + broken:>8,} tasks, by {workers}"
        yield f"  results      {succeeded.count():>8,} stored here by the workers there"
        yield f"  rejected     {broken:>8,} broken files, after their last attempt there"
        if is_whole and (forwarded, succeeded.count()) != (files, files - broken):
            raise DemoFailed(f"{files} files were published, {broken} of them broken, and the counts differ.")
