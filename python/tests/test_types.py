"""The public interface is typed, without Any."""

import ast
import inspect
import re
import unittest
from pathlib import Path

import cntk_reader

ANY = re.compile(r"\bAny\b")


def signatures():
    """Yields names and annotations of public functions, methods, properties and attributes."""
    for name in cntk_reader.__all__:
        value = getattr(cntk_reader, name)
        if inspect.isfunction(value):
            yield name, value.__annotations__
        if not inspect.isclass(value):
            continue
        for base in value.__mro__:
            if not base.__module__.startswith("cntk_reader"):
                continue
            yield name, {key: text for key, text in vars(base).get("__annotations__", {}).items() if key[0] != "_"}
            for key, member in vars(base).items():
                if key.startswith("_") and key not in ("__init__", "__getitem__", "__iter__"):
                    continue
                function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
                if inspect.isfunction(function):
                    yield f"{name}.{key}", inspect.unwrap(function).__annotations__


def is_public(name):
    return name[0] != "_" or name.startswith("__")


def written_annotations(path):
    """Yields places and annotations of a module's public names, without importing it."""
    nodes = [("", node) for node in ast.parse(path.read_text()).body]
    while nodes:
        place, node = nodes.pop()
        name = getattr(node, "name", "")
        if isinstance(node, ast.ClassDef) and is_public(name):
            nodes += [(f"{place}{name}.", child) for child in node.body]
            yield from ((f"{place}{name}", ast.unparse(base)) for base in node.bases)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and is_public(name):
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
            parts = [("return", node.returns), *((one.arg, one.annotation) for one in given if one is not None)]
            for part, annotation in parts:
                if part not in ("self", "cls") or annotation is not None:
                    yield f"{place}{name}, {part}", "" if annotation is None else ast.unparse(annotation)
        elif isinstance(node, ast.AnnAssign) and is_public(ast.unparse(node.target)):
            yield f"{place}{ast.unparse(node.target)}", ast.unparse(node.annotation)


class Types(unittest.TestCase):
    def test_modules_that_import_others(self):
        for module in ("torch.py", "jax.py", "cntk/transforms.py"):
            path = Path(cntk_reader.__file__).parent / module
            annotations = list(written_annotations(path))
            self.assertGreater(len(annotations), 10, module)
            self.assertEqual([place for place, text in annotations if not text or ANY.search(text)], [], module)

    def test_no_public_signature_has_any(self):
        count = 0
        found = set()
        for name, annotations in signatures():
            for key, annotation in annotations.items():
                count += 1
                if ANY.search(annotation if isinstance(annotation, str) else repr(annotation)):
                    found.add(f"{name}, {key}: {annotation}")
        self.assertGreater(count, 200)
        self.assertEqual(sorted(found), [])

    def test_all_parameters_have_types(self):
        for name in cntk_reader.__all__:
            value = getattr(cntk_reader, name)
            members = vars(value).items() if inspect.isclass(value) else [("", value)]
            for key, member in members:
                function = inspect.unwrap(getattr(member, "__func__", member))
                if key.startswith("_") or not inspect.isfunction(function):
                    continue
                parameters = [one for one in inspect.signature(function).parameters if one not in ("self", "cls")]
                self.assertLessEqual({*parameters, "return"}, set(function.__annotations__), f"{name}.{key}")


if __name__ == "__main__":
    unittest.main()
