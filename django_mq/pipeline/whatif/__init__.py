"""Simulations: how other settings of a queue or its workers would have changed a day.

A recorded day goes through the in-process broker once more, with other
settings, on a clock that jumps from event to event. ``simulation`` needs the broker
alone; ``job`` runs one scenario per task.
"""
