"""Many runs: plans, workers on this machine or on Slurm, their state, and tuning."""
