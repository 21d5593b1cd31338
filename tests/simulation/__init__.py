"""A simulator that drives the pipeline's own protocol code through a partitioned log, by seed.

One seed is one schedule: requests, faults, latencies and the order of every step follow from it. Each process may die
at every await. `python -m tests.simulation --help` runs, replays and shrinks schedules.
"""
