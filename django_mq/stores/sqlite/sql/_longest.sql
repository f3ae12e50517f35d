strftime('%%Y-%%m-%%d %%H:%%M:%%S', (%(now_microseconds)s + CAST(q.max_ttl_seconds * 1000000 AS INTEGER)) / 1000000, 'unixepoch')
    || printf('.%%06d', (%(now_microseconds)s + CAST(q.max_ttl_seconds * 1000000 AS INTEGER)) %% 1000000)
