"""Publish, claim, handle and settle messages: what runs in one process. In the order a message meets the files:

validation.py  the checks of what a caller gives
codecs.py      bodies and headers to bytes and text, and back
publisher.py   check, encode, and write the row in the caller's transaction
batch.py       many messages that differ only in body, id and times
queues.py      create, pause and resume queues
messages.py    a message as a handler, or a program that browses, sees it
hints.py       the hint that waits for the commit
follower.py    show each message of a queue once, as it arrives
consumer/      claim, handle and settle messages: the runtime of a worker
operator/      what an operator changes by hand
"""
