"""Figures: each draws one message from the report tree. matplotlib loads when a figure is drawn."""
