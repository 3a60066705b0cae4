"""Griffe extension: docstrings of the classes that are written in Rust; roles of reStructuredText.

The stub of the extension module has no docstrings, so they come from Rust's comments, and from the
Python classes that extend these classes. Roles such as :meth:`read` become code.
"""

import ast
import re
from pathlib import Path

import griffe

PYTHON = Path(__file__).resolve().parents[2] / "python"
#: The module of the classes, and a Python class that extends each of them.
NATIVE = "cntk_reader._native"
EXTENSIONS = {"_StreamExtension": "StreamMinibatch", "_MinibatchExtension": "Minibatch"}

ROLE = re.compile(r":[a-z]+:`~?([^`]+)`")
OWNER = re.compile(r"(?:pub(?:\(\w+\))? )?(?:impl|struct)\b(?:<[^>]*>)? (\w+)")
METHOD = re.compile(r"(?:pub(?:\(\w+\))? )?fn (\w+)")


def in_rust():
    """Yields the names of classes and methods in Rust, and the comments above them."""
    for file in sorted((PYTHON / "src").rglob("*.rs")):
        owner, comment, in_attribute = "", [], False
        for line in map(str.strip, file.read_text().splitlines()):
            if line.startswith("///"):
                comment.append(line[4:])
            elif in_attribute or line.startswith("#["):
                in_attribute = not line.endswith("]")
            else:
                if found := OWNER.match(line):
                    owner = found[1]
                    yield f"{NATIVE}.{owner}", comment
                elif found := METHOD.match(line):
                    yield f"{NATIVE}.{owner}.{found[1]}", comment
                comment = []


def in_python():
    """Yields the names of methods in Python, and their docstrings."""
    for node in ast.walk(ast.parse((PYTHON / "cntk_reader/_minibatch.py").read_text())):
        if isinstance(node, ast.ClassDef) and node.name in EXTENSIONS:
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and (text := ast.get_docstring(method)):
                    yield f"{NATIVE}.{EXTENSIONS[node.name]}.{method.name}", [text]


class Docstrings(griffe.Extension):
    """Adds and rewrites docstrings."""

    def __init__(self):
        comments = [*in_rust(), *in_python()]
        self.texts = {name: "\n".join(comment) for name, comment in comments if comment}

    def on_instance(self, *, obj, **_):
        """Adds or rewrites one docstring."""
        if obj.docstring is None and obj.path in self.texts:
            obj.docstring = griffe.Docstring(self.texts[obj.path], parent=obj)
        if obj.docstring:
            obj.docstring.value = ROLE.sub(r"`\1`", obj.docstring.value)
