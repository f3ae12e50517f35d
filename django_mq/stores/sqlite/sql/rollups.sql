-- name: _bucket. The bucket of a duration in milliseconds, as engine.histograms has it: eight to a doubling. What is added
-- keeps a power of two from falling short of its bucket.
CAST(ln(max({it}, 1.0)) * 11.541560327111707 + 1e-9 AS INTEGER)
-- name: _wait_ms
max((({microseconds:claimed_at}) - ({microseconds:ready_at})) / 1000.0, 0.0)
-- name: _run_ms
max((({microseconds:finished_at}) - ({microseconds:claimed_at})) / 1000.0, 0.0)
