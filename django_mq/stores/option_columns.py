"""The columns of a queue's options as statements name them, made from the table of options.

Another queue is named by its id in the database, and by its name everywhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mq.engine.options import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django_mq.engine.options import Option


def texts() -> dict[str, str]:
    """Return what stands in a statement for ``{option_columns}``, ``{option_values}`` and ``{option_reads}``."""
    options = OPTIONS.values()
    return {
        "option_columns": ", ".join(option.column for option in options),
        "option_values": ", ".join(map(_written, options)),
        "option_reads": ", ".join(map(_read, options)),
    }


def _written(option: Option) -> str:
    value = f"%({option.name})s"
    return f"(SELECT id FROM django_mq_queue WHERE name = {value})" if option.is_link else value


def _read(option: Option) -> str:
    column = f"q.{option.column}"
    return f"(SELECT o.name FROM django_mq_queue o WHERE o.id = {column})" if option.is_link else column


def options_read(values: Iterable[Any]) -> dict[str, Any]:
    """Return the options by name from the columns that ``{option_reads}`` names."""
    pairs = zip(OPTIONS.values(), values, strict=True)
    # Some databases store true as 1.
    return {option.name: bool(value) if option.base_type == "bool" else value for option, value in pairs}
