"""Programs of users of the pipeline: each runs in a process of its own, and is killed at times."""
