"""An app whose handlers cannot be loaded."""
