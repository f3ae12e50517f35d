{now} + INTERVAL round(least(q.min_ttl_seconds, 2e11) * 1000000) MICROSECOND
