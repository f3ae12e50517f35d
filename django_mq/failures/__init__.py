"""Failures in groups: alike failed attempts counted together, beside the versions of the site.

groups.py     gives failed attempts their groups, and forgets old ones
deploys.py    notes each version of the site, and says what is new since the last one
staged.py     redrives a group in stages: a few first, at a rate, up to the first failure
extension.py  how they enter
"""
