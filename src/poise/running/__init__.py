"""Running experiments: the runner, shared trunks, fleets, sweeps and Ray clusters."""
