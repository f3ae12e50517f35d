"""Batches.

actions.py  close, cancel, redrive and delete
admin.py    the list, and the page of one with its failed members and its callbacks
"""
