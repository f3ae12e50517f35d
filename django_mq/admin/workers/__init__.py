"""Workers and their consumers in the admin.

admin.py    the lists, and the page of a worker session
running.py  what runs now, the most unusual first
actions.py  what an operator may tell a worker
"""
