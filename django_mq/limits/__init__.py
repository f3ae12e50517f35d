"""Limits by key: how many messages of a customer, a host or a type may begin in a time, or run at once.

``declared`` declares them, and gives them to claims; ``learned`` holds a key that a service has limited.
"""

from django_mq.errors import RateLimited
from django_mq.limits.declared import concurrency, rate_limit, throttle

__all__ = ["RateLimited", "concurrency", "rate_limit", "throttle"]
