"""What may be met instead of an expectation."""

from tests.scenarios.adapter import Json
from tests.scenarios.errors import MalformedScenarioError


def read_alternative(value: object, where: str) -> tuple[Json | None, str]:
    """An ``alternative`` as a file has it: the other expectations, if it states any, and its note.

    It may be a text, or an object with a ``note`` and the keys of an expectation, which may
    also stand under ``expect``. Raises MalformedScenarioError for anything else.
    """
    if value is None:
        return None, ""
    if isinstance(value, str):
        return None, value
    if not isinstance(value, dict):
        raise MalformedScenarioError(f"{where}: 'alternative' should be an object or a text, not {value!r}")
    rest = {name: each for name, each in value.items() if name != "note"}
    stated = rest.pop("expect", rest)
    if not isinstance(stated, dict) or (stated is not rest and rest):
        raise MalformedScenarioError(f"{where}: 'alternative' should hold one set of expectations, not {value!r}")
    return stated or None, str(value.get("note", ""))
