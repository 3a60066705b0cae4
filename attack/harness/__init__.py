"""Runs cases in a worker process, converts minibatches to plain values, compares, injects
faults."""
