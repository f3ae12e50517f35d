"""Random histories of queues of many kinds, each beside a model that says the same the slow way."""
