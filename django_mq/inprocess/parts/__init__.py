"""What one queue of the in-process broker consists of. The queue holds its lock around every call.

state.py        what all parts share: the rules, what the queue holds, and its time
due.py          what time changes: scheduled entries become ready, and others expire
outcomes.py     how a delivery ends
subscribers.py  consumers that come and go, and the end of the queue
deliveries.py   claims for consumers
arrivals.py     new messages
control.py      what operators do
"""
