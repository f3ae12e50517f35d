"""The orders a queue can stand in.

``base.EntryList`` is the engine's one extension point: a queue works with anything that
keeps entries in one order, and asks it nothing else.
"""
