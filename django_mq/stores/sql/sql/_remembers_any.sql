-- The same as remembers_any of DuplicateIds in django_mq/engine/duplicates.py.
(dedup_count > 0 OR dedup_seconds IS NOT NULL)
