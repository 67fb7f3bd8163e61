"""From an experiment to its records: runner, schedule, shared beginnings, fleets, sweeps, Ray."""
