"""``python -m sweeps``."""

import sys

from sweeps.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
