"""Typed messages as an extension of django_mq, which ``django_mq.apps`` adds."""

from __future__ import annotations

from django_mq.seams.extension import Extension
from django_mq.typed.encoder import encoded
from django_mq.typed.signature import signature_of

EXTENSION = Extension(name="typed", arguments=(signature_of,), encoders=(encoded,))
