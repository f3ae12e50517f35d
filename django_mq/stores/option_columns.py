"""A queue's options as statements name and carry them, made from the table of options.

Another queue is named by its id in the database, and by its name everywhere else. Options without a column are
one text of JSON, of which NULL says that all have their defaults. What another version wrote there and this one
does not know is left alone.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

from django_mq.engine.options import MEMORY_OPTIONS, OPTIONS, OTHERS, others_in
from django_mq.stores.refusals import unsupported

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from django_mq.engine.options import Option

#: The column of the options that have none of their own.
OTHER = "other_options"


@cache
def texts() -> dict[str, str]:
    """Return what stands in a statement for ``{option_columns}``, ``{option_values}`` and ``{option_reads}``."""
    options = _with_columns()
    return {
        "option_columns": ", ".join([*(str(option.column) for option in options), OTHER]),
        "option_values": ", ".join([*map(_value, options), f"%({OTHER})s"]),
        "option_reads": ", ".join([*map(_read, options), f"q.{OTHER}"]),
    }


def _with_columns() -> list[Option]:
    return [option for option in OPTIONS.values() if option.column is not None]


def _value(option: Option) -> str:
    value = f"%({option.name})s"
    return f"(SELECT id FROM django_mq_queue WHERE name = {value})" if option.is_link else value


def _read(option: Option) -> str:
    column = f"q.{option.column}"
    return f"(SELECT o.name FROM django_mq_queue o WHERE o.id = {column})" if option.is_link else column


def written(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a statement with ``{option_values}``.

    Raises UnsupportedRule for an option that only queues in memory have.
    """
    for name, option in MEMORY_OPTIONS.items():
        if options.get(name, option.default) != option.default:
            raise unsupported(f"the option {name} of a queue")
    others = {name: options[name] for name in OTHERS if options[name] != OPTIONS[name].default}
    own = {option.name: options[option.name] for option in _with_columns()}
    return own | {OTHER: json.dumps(others) if others else None}


def read(values: Sequence[Any]) -> dict[str, Any]:
    """Return the options by name from the columns that ``{option_reads}`` names."""
    *own, other = values
    pairs = zip(_with_columns(), own, strict=True)
    # Some databases store true as 1.
    found = {option.name: bool(value) if option.base_type == "bool" else value for option, value in pairs}
    return found | others_in(json.loads(other) if other else None)
