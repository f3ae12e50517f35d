"""The reference pages say what the code says."""

from __future__ import annotations

import inspect
import re
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import get_commands
from django.utils.functional import cached_property

from django_mq import api, checks, errors
from django_mq.conf import Settings
from django_mq.engine.options import MEMORY_OPTIONS, OPTIONS, QueueOptions
from django_mq.engine.states import MOVES, State
from tests.docs.pages import DOCS, rows

if TYPE_CHECKING:
    from collections.abc import Callable

INTEGRATIONS = Path(checks.__file__).parent / "integrations"
#: Files with checks of their own. Read and not imported: the interface of Django's tasks may be missing.
OTHERS = (
    INTEGRATIONS / "celery/checks.py",
    INTEGRATIONS / "tasks/backend.py",
    INTEGRATIONS.parent / "bridges/checks.py",
    INTEGRATIONS.parent / "bridges/receiver_checks.py",
    INTEGRATIONS.parent / "periodic/checks.py",
)
REFERENCE = DOCS / "reference"


def default_of(field: Any) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


@pytest.mark.parametrize(("heading", "options"), [("DJANGO_MQ", Settings), ("QUEUES", QueueOptions)])
def test_the_settings_page_has_every_setting_with_its_default(heading: str, options: type) -> None:
    documented = {name: cells[0].strip("`") for name, cells in rows(REFERENCE / "settings.md", heading).items()}

    declared = [field for field in fields(options) if field.name != "added"]
    assert documented == {field.name: repr(default_of(field)) for field in declared}


def test_the_settings_page_says_of_each_option_of_a_queue_what_the_table_says() -> None:
    page = rows(REFERENCE / "settings.md", "QUEUES")

    options = OPTIONS | MEMORY_OPTIONS
    assert list(page) == list(options)
    for name, option in options.items():
        meaning = page[name][1]
        assert meaning.startswith(option.help), name
        assert set(option.choices) <= set(re.findall(r"`(\w+)`", meaning)), name


def signature_rows(name: str) -> dict[str, str]:
    return {argument: cells[0].strip("`") for argument, cells in rows(REFERENCE / "api.md", name).items()}


@pytest.mark.parametrize("name", api.__all__)
def test_the_page_of_the_python_api_has_every_name_with_its_arguments_and_defaults(name: str) -> None:
    documented = signature_rows(name)

    value = getattr(api, name)
    if name in ("BrowsedMessage", "ReceivedMessage"):
        assert sorted(documented) == sorted(attributes_of(value))
    elif value is api.DurableMessage:
        own = {each for each in vars(value) if not each.startswith("_")}
        assert set(documented) == own - {"over"}
    elif value is api.Answer:
        assert list(documented) == [*api.Answer._fields, "done"]
    elif value in (api.Effect, api.BatchState):
        assert list(documented) == [each.value for each in value]
    elif value is api.BatchFigures:
        assert set(documented) == {*(field.name for field in fields(value)), "done"}
    elif value is api.BatchHandle:
        assert set(documented) == {"id", *(name for name in vars(value) if not name.startswith("_"))}
    elif value in (api.Cancelled, api.Decline, api.Reject, api.Skip):
        assert documented == {}  # they take what any exception takes
    else:
        assert documented == arguments_of(value)


def arguments_of(function: Callable[..., Any]) -> dict[str, str]:
    """Return the arguments with their defaults, as the page writes them."""
    found = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            found[parameter.name] = "keywords"
        elif parameter.kind is not parameter.VAR_POSITIONAL:
            default = parameter.default
            found[parameter.name] = "required" if default is parameter.empty else shown(default)
    return found


def shown(default: Any) -> str:
    return repr(default).replace(repr(State.READY), "State.READY")


def attributes_of(kind: type) -> set[str]:
    """Return the public attributes that the class and its bases assign to ``self`` or compute."""
    sources = [inspect.getsource(base) for base in kind.__mro__ if base is not object]
    assigned = re.findall(r"self\.([a-z]\w*)(?:: [^=\n]+)? =", "".join(sources))
    return {*assigned, *(name for name, value in inspect.getmembers(kind, is_computed) if value)}


def is_computed(value: object) -> bool:
    return isinstance(value, cached_property | property)


def test_the_states_page_has_the_engines_table_of_moves() -> None:
    moves = rows(REFERENCE / "states.md", "Moves")
    documented = {state: set(re.findall(r"`(\w+)`", " ".join(cells))) for state, cells in moves.items()}

    assert documented == {
        state.name.lower(): {target.name.lower() for target in targets} for state, targets in MOVES.items()
    }


def test_the_checks_page_has_an_anchor_for_every_id() -> None:
    source = inspect.getsource(checks) + "".join(path.read_text(encoding="utf-8") for path in OTHERS)
    ids = set(re.findall(r"\b[EW]\d{3}\b", source))
    anchors = re.findall(r"^\(django_mq\.(\w+)\)=$", (REFERENCE / "checks.md").read_text(), re.MULTILINE)

    assert sorted(anchors) == sorted(ids)


def test_the_errors_page_has_every_error() -> None:
    defined = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and value.__module__ == errors.__name__
    }
    documented = re.findall(r"^\| `(\w+)` \|", (REFERENCE / "errors.md").read_text(), re.MULTILINE)

    assert sorted(documented) == sorted(defined)


def test_the_commands_page_has_every_command() -> None:
    commands = {name for name, app in get_commands().items() if app == "django_mq"}
    documented = re.findall(r"^## (mq_\w+)$", (REFERENCE / "commands.md").read_text(), re.MULTILINE)

    assert sorted(documented) == sorted(commands)


def test_the_upgrade_page_says_what_each_migration_locks() -> None:
    files = (Path(checks.__file__).parent / "migrations").glob("0*.py")
    numbers = {path.name[:4] for path in files}
    lines = re.findall(r"^\| (0\d{3} [^|]+)\|", (DOCS / "how-to/operations/upgrade.md").read_text(), re.MULTILINE)
    documented = re.findall(r"\b0\d{3}\b", " ".join(lines))

    assert sorted(documented) == sorted(numbers)
