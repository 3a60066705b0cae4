//! Options of a reader as dictionaries of Python.
