-- name: _ready_at
greatest(gone.deliver_at, gone.published_at, gone.released_at)
