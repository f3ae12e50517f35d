"""The jobs of mq_spark, by name: each is a function with its help text and its arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.management.arguments import Argument

    #: Called with the command, the database alias and the command line's values.
    Run = Callable[..., None]


class Job(NamedTuple):
    """A job of the command line."""

    run: Run
    help: str
    arguments: tuple[Argument, ...]


JOBS: dict[str, Job] = {}


def job(words: str, *arguments: Argument) -> Callable[[Run], Run]:
    """Register the function as the job of its name."""

    def register(run: Run) -> Run:
        JOBS[run.__name__] = Job(run, words, arguments)
        return run

    return register


def add_jobs(parser: Any) -> None:
    """Add a subcommand for each job to the command line."""
    jobs = parser.add_subparsers(dest="job", metavar="JOB", required=True)
    for name, each in JOBS.items():
        one = jobs.add_parser(name, help=each.help)
        for add in each.arguments:
            add(one)
