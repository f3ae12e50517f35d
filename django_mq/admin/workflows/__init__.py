"""Workflows: their list, and the page of one with its graph.

admin.py    the list and the page
actions.py  what an operator may do to workflows
steps.py    the steps of a workflow as its page shows them
drawing.py  the places of steps and lines, for a picture
picture.py  a picture with the words and states of steps
"""
