CASE WHEN n.deliver_at IS NULL OR q.due_order = 'keep_place' THEN 0
     ELSE CAST(strftime('%%s', substr(n.deliver_at, 1, 19)) AS INTEGER) * 1000000
          + CAST(substr(n.deliver_at, 21, 6) AS INTEGER) - 4611686018427387904 END
