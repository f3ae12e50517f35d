"""The vocabulary drawn from Qpid: consumers pull, one message at a time."""
