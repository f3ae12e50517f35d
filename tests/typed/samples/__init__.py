"""Files that are type-checked, and never run."""
