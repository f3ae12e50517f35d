"""Runs the scenarios of a file, one by one."""

from collections.abc import Iterator
from pathlib import Path

from tests.scenarios.adapter import Adapter
from tests.scenarios.environment import ENGINE, Environment
from tests.scenarios.errors import ScenarioError, UnfitError
from tests.scenarios.judging import Verdict, judge
from tests.scenarios.loading import load, name_of, read_scenario
from tests.scenarios.stored.unfit import reasons_of
from tests.scenarios.vocabularies import adapter_for


def run_file(path: Path, environment: Environment = ENGINE) -> Iterator[tuple[str, Verdict]]:
    """Each scenario's id with its verdict; raises a ScenarioError if the file is of no use."""
    content = load(path)
    adapter = adapter_for(content.vocabulary, environment)
    reasons = reasons_of(environment.store)
    for position, value in enumerate(content.scenarios):
        name, verdict = name_of(value, position), run_scenario(adapter, value)
        reason = None if verdict.passed else reasons.get(f"{path.stem}-{name}")
        yield name, verdict if reason is None else Verdict(passed=False, difference=reason, left_out=True)


def run_scenario(adapter: Adapter, value: object) -> Verdict:
    """The verdict on one scenario as the file has it; never raises."""
    try:
        return judge(adapter.run(read_scenario(value)))
    except UnfitError as error:
        return Verdict(passed=False, difference=str(error), left_out=True)
    except ScenarioError as error:
        return Verdict(passed=False, difference=str(error))
    except Exception as error:  # noqa: BLE001 (a crash is this scenario's failure; the others must still run)
        return Verdict(passed=False, difference=f"{type(error).__name__}: {error}")
