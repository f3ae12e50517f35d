"""Bridges to other brokers, and receivers of their messages."""
