(SELECT sum(size)::int FROM parts)
