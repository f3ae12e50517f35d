"""What would have happened, had the queue or its workers been others?

A recorded day goes once more through the engine that the workers use, under other
settings, on a clock that jumps from event to event. ``simulation`` needs the engine
alone; ``job`` runs one scenario per task.
"""
