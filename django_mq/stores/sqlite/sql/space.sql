-- Asks what the database file takes of the disk, and how much of it is free.
-- Locks: nothing.
-- Returns: bytes, and bytes of free pages.
SELECT p.page_count * s.page_size, f.freelist_count * s.page_size
FROM pragma_page_count p, pragma_page_size s, pragma_freelist_count f
