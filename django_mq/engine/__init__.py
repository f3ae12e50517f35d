"""The queue model: functions over plain values that every store and every interface calls.

No database, no thread, no lock, and no clock of its own: a function that needs the time takes it as ``now``.

Files, in the order a message meets them
    ``options`` declares a queue and says what its name may be; ``bounds`` checks numbers. ``message`` is what is
    published, and ``states`` says which state may follow which. ``decisions/`` has position, expiry, limits,
    duplicates, routing, credit, claims, and verdicts. ``selector`` and ``expressions`` are the language of
    conditions on messages.

The package ``inprocess`` has a broker in the memory of one process that decides by these functions, too.
"""
