(SELECT least(%(credit)s, max(rank))::int FROM candidates)
