"""Exhaustive search: every interleaving of a small system keeps the promises.

search.py     visit every state of a model, and name the shortest way to one that breaks a promise
sessions.py   the model of worker sessions: claim, settle, renew, reap, revive
"""
