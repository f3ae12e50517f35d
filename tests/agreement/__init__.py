"""Random operations, played on the memory store and on a SQL store side by side.

    history.py    one random history: queues with options, then operations, by a seed
    site.py       one store: its handles and clock; performs operations, and shows what the store holds
    pair.py       two sites that perform the same history; raises Disagreement at the first difference
    shrinking.py  the shortest part of a history that still disagrees
    coverage.py   counts how often each rule has decided something
    faults.py     faults to plant in a copy of the package, which the comparison must find

``python -m tests.agreement --store postgresql --seconds 3600 --seed 1`` compares for an hour;
``python -m tests.agreement --store postgresql --planted`` plants each fault in its statements.

What the rules leave open, and the comparison therefore ignores: row ids, session ids and claim tokens; the
exact time of anything (times are compared in steps of 50 seconds, and no two events are closer than that
unless one operation has caused both); whether due messages of a paused queue are already ready; whether a
claim that finds nothing says that the queue is constrained; whether a heartbeat's answer says that something
is ready; how many messages an expiry counts of which a ring has replaced some on the way. A claim
always begins at the head of its queues: from elsewhere it may pass over what came back.
"""
