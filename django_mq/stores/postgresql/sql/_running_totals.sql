row_number() OVER delivery AS turn,
            count(*) FILTER (WHERE suspect) OVER delivery AS suspects,
            sum(size_bytes) OVER delivery AS total_bytes
