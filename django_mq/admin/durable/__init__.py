"""Events of durable handlers.

actions.py  emit and delete
admin.py    the list, and the page of one with what waits for it
"""
