"""Alerts that are over or not: since when, until, and which targets were told.

admin.py  the list, and the page of one
"""
