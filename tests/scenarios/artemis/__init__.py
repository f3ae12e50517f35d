"""The vocabulary drawn from Artemis: messages are pushed until every consumer is busy.

One second of the engine's clock is a millisecond of the scenario's: all times stay whole
numbers, and exact.
"""
