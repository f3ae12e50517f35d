"""Bridges to other brokers. In the order in which messages meet the files:

declared.py  the bridges that the settings name
checks.py    what is wrong with them, for ``manage.py check``
queues.py    the option of queues, and what a queue with a bridge refuses
worker.py    the worker of a bridge: claim pages, publish, settle what is confirmed
links.py     connections to the other broker, with confirms and without
alias_link.py  the connection to another database of the project
outgoing.py  what the other broker gets of a message
record.py    the row that says how a connection is
models.py    the table of these rows
reports.py   what is known of each bridge: its connections, and what waits for it
findings.py  what keeps messages from crossing, and the panel in the admin
duty.py      forgets the rows of workers that are gone

Receivers take messages of other brokers. In the order in which messages meet the files:

receiving.py        the receivers that the settings name, and those that a process runs
tenure.py           which process has a receiver, and the row that shows what it does
reception.py        consumes, has what comes written, acknowledges
connection.py       the connection to the other broker, and its errors in words without credentials
incoming.py         reads a message, or says why it cannot be read
inbox.py            writes messages and their ids in one transaction, and keeps what cannot be read
direct.py           calls a transactional handler in the transaction that notes the id
receiver_state.py   the rows that show receivers
receiver_checks.py  what is wrong with receivers, for ``manage.py check``
inward.py           what the doctor, alerts and metrics say of them

``engine/decisions/receivers.py`` decides what a receiver may have, and by what a message is received once.
``engine/decisions/bridges.py`` decides what a bridge may have, and how its address is shown;
``engine/decisions/forwarding.py`` decides what may be sent, and what the answers mean. Nothing here imports Kombu
before a bridge is used.
"""
