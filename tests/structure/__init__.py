"""How much of the package a reader has to hold in mind: ``python -m tests.structure``."""
