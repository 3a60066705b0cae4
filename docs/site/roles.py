"""Griffe extension: roles of reStructuredText in docstrings, such as :meth:`read`, become code."""

import re

import griffe

ROLE = re.compile(r":[a-z]+:`~?([^`]+)`")


class Roles(griffe.Extension):
    """Rewrites the docstrings of all objects."""

    def on_instance(self, *, obj, **_):
        """Rewrites one docstring."""
        if obj.docstring:
            obj.docstring.value = ROLE.sub(r"`\1`", obj.docstring.value)
