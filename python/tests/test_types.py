"""The public interface has types, and none of them is Any."""

import inspect
import re
import unittest

import cntk_reader

ANY = re.compile(r"\bAny\b")


def signatures():
    """Names and annotations of what is public: functions, methods, properties and attributes."""
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


class Types(unittest.TestCase):
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
