(s.guarded AND s.deadline > {now} + %(reconnect_seconds)s * interval '1 second' AND NOT {attended})
