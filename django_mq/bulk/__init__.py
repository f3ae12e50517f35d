"""Handlers of many: a list of messages in one call. In the order in which messages meet the files:

pool.py  gathers messages until there are enough of them, or the first one has waited long enough
call.py  one call of the handler: decode, call, settle together, or halve

``engine/decisions/bulk.py`` decides what a bulk is, and which message is charged. Each handler of many has a
worker of its own in the process: while its bulk runs, no suspect of its queue is claimed.
"""
