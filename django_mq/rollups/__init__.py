"""The figures of the past, for charts: what each minute brought by queue and type, summed up from the history.

duty.py       sums minutes up, counts late rows, adds minutes up to longer steps, deletes old ones
series.py     what charts and rates read of them
extension.py  how all this enters
"""
