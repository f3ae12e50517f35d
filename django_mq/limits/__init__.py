"""Limits by key: how many messages of a customer, a host or a type may begin in a time, over all workers.

``throttles`` declares them, and gives them to claims; ``learned`` holds a key that a service has limited.
"""

from django_mq.errors import RateLimited
from django_mq.limits.throttles import throttle

__all__ = ["RateLimited", "throttle"]
