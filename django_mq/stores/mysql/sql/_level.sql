-- The same as level_of() in django_mq/engine/levels.py.
CASE WHEN q.kind = 'fifo' THEN 0
     ELSE greatest(0, least(q.levels - 1,
         CAST(n.priority AS SIGNED) - (5 - (CAST(q.levels AS SIGNED) + 1) DIV 2))) END
