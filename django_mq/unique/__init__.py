"""Unique messages beside the store: their maintenance, and what the admin shows of them.

extension.py    the duty that deletes keys, and the panel of a message
"""
