#!/usr/bin/env bash
# The tests that need a real Slurm cluster: run.sh [PYTHON]. They start it on this machine and stop it again;
# what is missing of Slurm is installed first (apt-get, as root).
set -euo pipefail
cd "$(dirname "$0")/../.."
exec "${1:-python3}" -m pytest -m slurm tests/slurm --durations 5
