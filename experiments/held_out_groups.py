"""Artifact ``held_out_groups``: see ``graded_groups``."""

from experiments.graded_groups import build_held_out as build

__all__ = ["build"]
