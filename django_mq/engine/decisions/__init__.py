"""What every store and interface decides by: functions and small classes over plain values.

places.py       the position of a message in its queue
fairness.py     the place of a message in a queue that its keys share
expiry.py       when a message expires
limiting_factor.py what limits the delivery of a queue
limits.py       the most that a queue holds, and what happens to the next message
credit.py       how many messages and bytes a consumer may hold
duplicates.py   duplicate ids
unique.py       unique messages: what happens to the second one with a key
last_value.py   the key of a last-value queue
routing.py      which queues an exchange leads to
claim.py        how much a session claims, and in which order
arbiter.py      which ready messages a session may have
decline.py      when a declined message is dead
session.py      what a session may do, and what becomes of it
recall.py       which prefetched messages a worker gives back
worker_mode.py  what a worker is told to do
declared.py     what the index of a queue's declared selectors says of a message
verdict.py      the outcome of an attempt
"""
