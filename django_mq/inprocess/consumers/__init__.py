"""The consumers of a queue of the in-process broker.

consumer.py       one subscription
target.py         one consumer of several queues
credit.py         credit that settling does not give back
admission.py      which consumers may subscribe
subscriptions.py  the consumers of a queue: the idle and the busy ones
groups.py         which consumer a group is assigned to
dispatch.py       which entry goes to which consumer
"""
