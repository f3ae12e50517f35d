"""Queues and bindings in the admin.

admin.py     the list of queues and the page of one
form.py      the form of a queue
actions.py   pause, resume, redrive, purge, delete
bindings.py  the queues that an exchange feeds
"""
