-- name: _bucket. The bucket of a duration in milliseconds, as engine.histograms has it: eight to a doubling. What is added
-- keeps a power of two from falling short of its bucket.
floor(ln(greatest({it}, 1)) * 11.541560327111707 + 1e-9)::int
-- name: _wait_ms. date_part returns a float; extract returns a numeric, which is slow.
greatest(date_part('epoch', claimed_at - ready_at) * 1000, 0)
-- name: _run_ms
greatest(date_part('epoch', finished_at - claimed_at) * 1000, 0)
