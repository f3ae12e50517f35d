"""The bridges that the settings name. Their addresses are shown by ``shown_address`` only."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from django_mq import conf
from django_mq.engine.decisions.bridges import bridges_of
from django_mq.engine.decisions.receivers import receivers_of
from django_mq.errors import BridgeAway, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django_mq.engine.decisions.bridges import Bridge


def bridges() -> dict[str, Bridge]:
    """Return the bridges of the settings by name. Raises ConfigurationError, which shows no address."""
    return bridges_of(conf.load().BRIDGES)


def bridge_named(name: str) -> Bridge:
    """Return a bridge. Raises ConfigurationError."""
    found = bridges()
    if name not in found:
        known = ", ".join(sorted(found)) or "none"
        raise ConfigurationError(f"DJANGO_MQ['BRIDGES'] has no bridge {name!r}; there are: {known}.")
    return found[name]


def address_of(bridge: Bridge) -> str:
    """Return the address with its credentials: never log it, and never store it.

    Raises ConfigurationError, and BridgeAway if the function of the site fails that returns it.
    """
    try:
        return bridge.address(os.environ)
    except ConfigurationError:
        raise
    except Exception as error:  # noqa: BLE001 - it may raise anything, also with a password in it
        raise BridgeAway(f"The function that returns its URL has raised {type(error).__name__}.") from None


def shown_address(bridge: Bridge) -> str:
    """Return where a bridge leads, for people: without credentials."""
    return bridge.shown_address(os.environ)


def links_of(
    alias: str, queues: Mapping[str, str], known: Mapping[str, Bridge]
) -> list[tuple[tuple[str, str], tuple[str, str]]]:
    """Return from where to where bridges and receivers lead, each place as a broker and a queue there.

    The databases of other aliases have the same queues: the settings declare them for all.
    """
    places = {alias}
    found = []
    for queue, name in queues.items():
        if name in known and not callable(known[name].url):
            target = shown_address(known[name])
            key = known[name].options.routing_key or queue
            other = target.partition("django-mq://")[2].strip("/") or alias
            place = other if target.startswith("django-mq://") else target
            if place is other:
                places.add(other)
            found.append((queue, place, key))
    links = [((source, queue), (place, key)) for source in sorted(places) for queue, place, key in found]
    with suppress(ConfigurationError):  # another check says it
        for each in receivers_of(conf.load().RECEIVERS, known).values():
            if each.queue is not None and not callable(known[each.bridge].url):
                source = shown_address(known[each.bridge])
                links.append(((source, each.source), (each.database or alias, each.queue)))
    return links
