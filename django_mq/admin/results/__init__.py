"""Results of Celery's tasks.

admin.py   the list of results, the page of one, and the action that forgets some
groups.py  chords, and groups that were saved, with how many of their members have ended
"""
