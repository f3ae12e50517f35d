EXISTS (
    SELECT 1 FROM pg_locks l
    JOIN pg_database d ON d.oid = l.database AND d.datname = current_database()
    WHERE l.locktype = 'advisory' AND l.classid = 28017 AND l.objsubid = 2 AND l.granted
      AND l.objid = mod(s.id, 2147483647)::int::oid)
