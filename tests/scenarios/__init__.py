"""Scenarios in JSON, run against the engine: ``python -m tests.scenarios FILE [FILE...]``.

With ``--store memory``, ``sqlite``, ``postgresql`` or ``mysql`` they are played on the durable queues
of a store instead; ``stored`` says how, and which of them are left out.

A file holds a vocabulary and scenarios that are written in it. For each vocabulary there is
an ``Adapter`` which translates: it plays a scenario's steps on a ``Broker`` with a clock of
its own, and answers what was found. Everything else is shared: ``loading`` reads files,
``judging`` compares, ``reporting`` prints.
"""
