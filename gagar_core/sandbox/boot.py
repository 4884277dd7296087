"""Starts a module of this package in a bare interpreter: ``python -s -S -P -B boot.py MODULE [ARG...]``.

The packages above the module are entered as empty shells, so their ``__init__`` files do not run: a worker
must stay small (its pages are copied at every fork) and must not load what the trusted process uses.
"""

import importlib
import sys
import types


def _shell(name: str, folder: str) -> None:
    package = types.ModuleType(name)
    package.__path__ = [folder]
    sys.modules[name] = package


if __name__ == "__main__":
    here = __file__.rpartition("/")[0]
    _shell("gagar_core", here.rpartition("/")[0])
    _shell("gagar_core.sandbox", here)
    importlib.import_module(f"gagar_core.sandbox.{sys.argv[1]}").main(sys.argv[2:])
