"""Real workers: tasks whose worker stops, dies, or is controlled from outside."""
