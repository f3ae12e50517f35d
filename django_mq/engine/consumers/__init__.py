"""The consumers of a queue of the engine.

consumer.py       one subscription
target.py         one consumer of several queues
credit.py         how many messages a consumer may hold
admission.py      which consumers may subscribe
subscriptions.py  the consumers of a queue: the idle and the busy ones
groups.py         which consumer a group is assigned to
dispatch.py       which entry goes to which consumer
"""
