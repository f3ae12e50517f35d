"""Failures in groups in the admin.

admin.py    the list of groups, and the page of one
staged.py   redrives in stages
actions.py  what an operator may do with the dead letters of a group, and with a redrive
"""
