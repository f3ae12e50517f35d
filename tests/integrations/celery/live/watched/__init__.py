"""An app with native handlers, and with the tools that watch them as its environment says."""
