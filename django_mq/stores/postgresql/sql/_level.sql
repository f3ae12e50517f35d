-- The same as level_of() in django_mq/engine/levels.py.
CASE WHEN q.kind = 'fifo' THEN 0
     ELSE greatest(0, least(q.levels - 1, n.priority - (5 - (q.levels + 1) / 2))) END
