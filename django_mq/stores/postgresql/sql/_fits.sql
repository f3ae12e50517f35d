-- The same as fitting() in django_mq/engine/claim.py.
(suspects = 0 AND (turn = 1 OR total_bytes <= %(max_bytes)s::bigint))
       OR (suspect AND turn = 1 AND %(slots)s::int > 0)
