(suspects = 0 AND (turn = 1 OR total_bytes <= %(max_bytes)s::bigint))
       OR (suspect AND turn = 1 AND %(slots)s::int > 0)
