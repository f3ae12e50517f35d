"""Periodic messages.

actions.py  pause, resume and run now
admin.py    the list, the form, and the page of one with its next ticks and its last runs
"""
