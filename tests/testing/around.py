"""A middleware that notes what it is around."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django_mq.seams.middleware import Execution, Proceed

seen: list[Any] = []


class Note:
    def process(self, execution: Execution, proceed: Proceed) -> Any:
        seen.append(execution.message.body)
        return proceed()
