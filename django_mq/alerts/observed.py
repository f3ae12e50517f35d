"""What needs a look now: the alerts of the overview, and what the doctor and the extensions find."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID, uuid5

from django_mq.diagnosis.doctor.examination import examine_site
from django_mq.diagnosis.state.alerts import AlertKind, alerts
from django_mq.diagnosis.state.extensions import found_by_extensions
from django_mq.diagnosis.state.fleet import fleet
from django_mq.diagnosis.state.overview import overview
from django_mq.diagnosis.state.sentences import sentence
from django_mq.diagnosis.state.unwanted import unwanted
from django_mq.engine.decisions.alerts import worse
from django_mq.rollups.series import recent_rates
from django_mq.seams.findings import Level

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from django_mq.diagnosis.state.alerts import Alert
    from django_mq.seams.findings import Finding

EXTENSION: Final = "extension"
DOCTOR: Final = "doctor"
#: What a target may choose from.
CAUSES: Final = (*(kind.value for kind in AlertKind), EXTENSION, DOCTOR)
NAMESPACE: Final = UUID("a0a7c3f2-6d0e-5b53-9d3b-0c9f9a2f6f11")


class Observation(NamedTuple):
    """One thing that needs a look now."""

    cause: str
    #: The queue, or what a finding names; empty for the workers.
    about: str
    level: str
    sentence: str

    @property
    def identity(self) -> tuple[str, str]:
        """The cause, and what it is about: there is one alert of each."""
        return self.cause, self.about

    @property
    def standing(self) -> UUID:
        return standing(self.cause, self.about)


def standing(cause: str, about: str) -> UUID:
    """Return the id of what needs a look, which the row of its alert has until the alert is over."""
    return uuid5(NAMESPACE, f"{cause} {about}")


def observe(alias: str) -> list[Observation]:
    """Return what needs a look, each once, with the worst level and all its sentences."""
    found: dict[tuple[str, str], Observation] = {}
    for each in (*_of_queues(alias), *_of_findings(alias)):
        before = found.get(each.identity)
        if before is not None:
            words = f"{before.sentence} {each.sentence}"
            each = each._replace(level=worse(before.level, each.level), sentence=words)  # noqa: PLW2901
        found[each.identity] = each
    return list(found.values())


def _of_queues(alias: str) -> Iterator[Observation]:
    workers = fleet(using=alias)
    states, rates = overview(using=alias), recent_rates(using=alias)
    return of_alerts(alerts(states, rates.rates, workers, unwanted(workers, using=alias)))


def of_alerts(found: Iterable[Alert]) -> Iterator[Observation]:
    """Yield alerts of the overview as observations."""
    for alert in found:
        level = Level.PROBLEM if alert.urgent else Level.NOTICE
        about = alert.queue.name if alert.queue else ""
        yield Observation(alert.kind.value, about, level.value, sentence(alert))


def _of_findings(alias: str) -> Iterator[Observation]:
    yield from of_findings(DOCTOR, examine_site(alias))
    yield from of_findings(EXTENSION, (found.finding for found in found_by_extensions(using=alias)))


def of_findings(cause: str, findings: Iterable[Finding]) -> Iterator[Observation]:
    """Yield findings as observations, except what is well."""
    for finding in findings:
        if finding.level is not Level.OK:
            words = f"{finding.sentence} {finding.mend}".rstrip()
            yield Observation(cause, finding.about[:255], finding.level.value, words)
