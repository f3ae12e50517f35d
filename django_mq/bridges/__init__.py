"""Bridges to other brokers. In the order in which messages meet the files:

declared.py  the bridges that the settings name
checks.py    what is wrong with them, for ``manage.py check``
queues.py    the option of queues, and what a queue with a bridge refuses
worker.py    the worker of a bridge: claim pages, publish, settle what is confirmed
links.py     connections to the other broker, with confirms and without
outgoing.py  what the other broker gets of a message
record.py    the row that says how a connection is
models.py    the table of these rows
findings.py  what keeps messages from crossing, and the panel in the admin
duty.py      forgets the rows of workers that are gone

``engine/decisions/bridges.py`` decides what a bridge may have, and how its address is shown;
``engine/decisions/forwarding.py`` decides what may be sent, and what the answers mean. Nothing here imports Kombu
before a bridge is used.
"""
