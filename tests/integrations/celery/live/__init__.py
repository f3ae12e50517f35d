"""Real workers: what becomes of tasks when a worker stops, dies, or is steered from outside."""
