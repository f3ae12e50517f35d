"""Durable handlers: a handler that runs again goes on where it was.

``engine/decisions/durable.py`` has the rule of replay.

handler.py    a handler with ``durable=True``: what is around a call of its function
message.py    the message that it gets, with ``step``, ``sleep``, ``wait_for`` and ``patched``
run.py        one call: compare what the function asks for with what is recorded
recorder.py   the records of a message, each written under the fence of its claim
events.py     ``emit``, and what waits for an event
sleeps.py     ``wake``, which ends a sleep early
changes.py    change the records of messages that are not handled to the end, after a change of code
models.py     the rows of records and events
duty.py       what the maintenance does
panel.py      what the admin shows of a message
extension.py  how all this enters
"""
