"""Doors for other packages. Each is imported only by those who use it."""
