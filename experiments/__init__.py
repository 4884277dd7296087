"""One run: its configuration, the parts wired from it, its artifacts, its folder."""
