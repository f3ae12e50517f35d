"""Typed messages: the annotation of a handler's parameter says what the body becomes.

signature.py  what the parameters of a handler's function ask for
readers.py    makes objects of decoded bodies
models.py     the same for models of pydantic and msgspec, by these libraries
encoder.py    writes such objects as JSON
extension.py  enters them into django_mq
"""
