"""The workflow that reports on the index: list the shelves, analyse each of them, and add up.

The step ``analyse`` runs once for each item that ``index`` returns, and ``report`` when all of them have ended.
What a handler returns is the result of its step.
"""

from __future__ import annotations

from django_mq.api import Workflow

from library.consumers import add_up, analyse_shelf, list_shelves

library_report = Workflow("library report")
_index = library_report.step("index", list_shelves)
_analyse = library_report.step("analyse", analyse_shelf, for_each=_index)
library_report.step("report", add_up, after=[_analyse])
