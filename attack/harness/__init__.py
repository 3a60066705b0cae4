"""Runs cases in a worker process, reads minibatches to plain values, compares, injects faults."""
