"""What operators allow single keys of limits."""
