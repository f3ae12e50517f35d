"""Handlers that are wrong in the way that the environment names."""

from __future__ import annotations

import os

from django_mq.api import consumer

if os.environ["BROKEN"] == "import":
    import a_module_that_is_not_installed  # type: ignore[import-not-found]  # noqa: F401
elif os.environ["BROKEN"] == "twice":
    consumer("orders")(print)
    consumer("orders")(repr)
elif os.environ["BROKEN"] == "undeclared":
    consumer("ordres")(print)
