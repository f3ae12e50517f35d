"""Durable handlers: replay, events, deaths at every statement."""
