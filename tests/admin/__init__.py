"""The admin as its users meet it: over HTTP, and in a browser."""
