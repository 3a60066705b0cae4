"""Every parameter of every public callable has a rule, which the call enforces.

Errors name the parameter.
"""

import importlib
import inspect
import math
import tempfile
import unittest
from pathlib import Path

import cntk_reader
import numpy as np
from cntk_reader import (
    CTFDeserializer,
    MinibatchSource,
    SequenceArray,
    SequenceList,
    StreamDef,
    StreamDefs,
    StreamInformation,
    from_arrays,
)
from cntk_reader import _rules as rules
from cntk_reader._explain import RULES

#: Classes that only the library instantiates, and base classes whose methods the library calls.
MADE_HERE = {
    "Bags",
    "Epoch",
    "Member",
    "Memory",
    "Minibatch",
    "MinibatchData",
    "Packed",
    "PackedIndices",
    "Padded",
    "PaddedIndices",
    "Progress",
    "ReaderError",
    "ReaderValueError",
    "Sizes",
    "Sparse",
    "StreamMinibatch",
}
BASES = {"ComposableUserDeserializer", "FileSystem", "RemoteFile", "Transform", "UserDeserializer"}
#: Plain values that users' transforms return, which the library checks, and CNTK's enumeration.
VALUES = {"ImageInfo", "TraceLevel"}

#: By rule, the values that it refuses.
NOT_WHOLE = [True, np.True_, 1.0, 1.5, math.nan, "1", None, [], np.array([1]), 10**30, -1]
REFUSED = {
    rules.Whole: NOT_WHOLE,
    rules.Real: [True, "1", math.nan, math.inf, -math.inf, np.float32("nan"), None, 1j, [], np.array([1.0])],
    rules.Flag: ["no", "yes", 0, 1, None, 0.0, [], np.int64(1)],
    rules.Text: ["", 1, None, b"x", True, ["x"]],
    rules.OnePath: ["", 1, None, b"x", True, ["x"]],
    rules.Paths: ["", 1, None, b"x", True, [], [""], [1], {"x": 1}],
    rules.Function: [1, None, "print", []],
    rules.Table: [1, None, [], "x", {1: 2}],
    rules.Is: [1, None, "x", []],
    rules.Shape: [True, 1.0, -1, 0, "3", None, (3, -1), (3, 1.5), (True,), [3], math.nan, np.array([3])],
}


def refused(rule):
    """Returns values that a rule refuses."""
    if isinstance(rule, rules.Maybe):
        return [value for value in refused(rule.rule) if value is not None]
    if isinstance(rule, rules.Items):
        short = [] if rule.count is None else [(), (1,) * (rule.count + 1)]
        return [1.5, "x", None, {}, *short, *([value] * (rule.count or 1) for value in refused(rule.rule))]
    if isinstance(rule, rules.Either):
        return [True, None, object()]
    if isinstance(rule, rules.Text) and rule.choices:
        return [*REFUSED[rules.Text], "nothing", "none of them"]
    if isinstance(rule, rules.Whole):
        beyond = [rule.least - 1, rule.most + 1]
        return [value for value in NOT_WHOLE if value != -1] + beyond
    if isinstance(rule, rules.Real):
        beyond = [value for value in (rule.least - 1, rule.most + 1) if math.isfinite(value)]
        return REFUSED[rules.Real] + beyond
    if isinstance(rule, rules.Within):
        return []
    if type(rule) in REFUSED:
        return REFUSED[type(rule)]
    # A rule of one module.
    return [object()] if rule.__name__ != "_is_dtype" else ["complex64", None, object()]


def public_callables():
    """Yields all public functions and classes, and the public methods of classes that users
    call."""
    modules = [
        cntk_reader,
        importlib.import_module("cntk_reader.cntk"),
        importlib.import_module("cntk_reader.cntk.transforms"),
    ]
    for name in ("torch", "jax"):
        try:
            modules.append(importlib.import_module(f"cntk_reader.{name}"))
        except ImportError:
            continue
    for module in modules:
        names = getattr(module, "__all__", None) or [
            name
            for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
        ]
        for name in names:
            value = getattr(module, name)
            if not callable(value) or name in BASES | VALUES:
                continue
            if (getattr(value, "__module__", None) or "").startswith("typing") or type(value).__name__ == "TypeVar":
                continue
            if not inspect.isclass(value):
                yield f"{module.__name__}.{name}", value
                continue
            if name not in MADE_HERE:
                yield f"{module.__name__}.{name}", value.__new__ if issubclass(value, tuple) else value.__init__
            if issubclass(value, (tuple, Exception)):
                continue
            for method, function in inspect.getmembers(value, callable):
                if method.startswith("_") or not (getattr(function, "__module__", None) or "").startswith(
                    "cntk_reader"
                ):
                    continue
                owner = next(base for base in value.__mro__ if method in vars(base))
                if owner.__name__ not in BASES:
                    yield f"{module.__name__}.{name}.{method}", function


def parameters(function):
    """Returns the named parameters except the object."""
    kinds = inspect.Parameter
    return [
        name
        for name, one in inspect.signature(function).parameters.items()
        if name not in ("self", "cls", "_cls") and one.kind not in (kinds.VAR_KEYWORD, kinds.VAR_POSITIONAL)
    ]


class EveryParameter(unittest.TestCase):
    def test_has_a_rule(self):
        """A new parameter without a rule fails here."""
        seen = 0
        for name, function in public_callables():
            # ArrayDeserializer's own methods are those of a user's deserializer.
            if ".ArrayDeserializer." in name:
                continue
            with self.subTest(name):
                own = parameters(function)
                self.assertEqual(sorted(own), sorted(getattr(function, RULES, {})))
                seen += len(own)
        self.assertGreater(seen, 150)

    def test_is_checked_by_the_call(self):
        """Passes values that each parameter's rule refuses, with valid values before it."""
        calls = 0
        for name, function in public_callables():
            own = getattr(function, RULES, {})
            if not hasattr(function, "__wrapped__"):
                continue
            signature = inspect.signature(function)
            needed = [
                one.name
                for one in signature.parameters.values()
                if one.default is one.empty and one.name in own and one.kind is not one.VAR_KEYWORD
            ]
            first = [object()] if {"self", "cls", "_cls"} & set(signature.parameters) else []
            for parameter, rule in own.items():
                for value in refused(rule):
                    # Valid values for required parameters before it, as far as their rules tell.
                    options = {one: VALID.get(one, "x") for one in needed} | {parameter: value}
                    with self.subTest(name, parameter=parameter, value=value):
                        with self.assertRaises((TypeError, ValueError)) as caught:
                            function(*first, **options)
                        self.assertNotIsInstance(caught.exception, cntk_reader.ReaderError)
                        self.assertRegex(
                            str(caught.exception),
                            f"{parameter}|shape|stream|Streams|names|{getattr(rule, 'what', None)}",
                        )
                        calls += 1
        self.assertGreater(calls, 1000)


#: Valid values of required parameters.
VALID = {
    "streams": {},
    "options": {},
    "arrays": {},
    "progress": None,
    "workers": 1,
    "threads": 1,
    "epoch": 1,
    "state": {},
    "state_dict": {},
    "checkpoint": {},
    "width": 1,
    "height": 1,
    "left": 0,
    "top": 0,
    "is_mirrored": 0,
    "source_width": 1,
    "source_height": 1,
    "x": 0,
    "channels": 1,
    "std_dev": 1,
    "ids": [],
    "size": 1,
    "callback": None,
    "stream_id": 0,
    "storage_format": "dense",
    "dtype": np.float32,
    "shape": (3,),
    "source": print,
    "input": "a",
    "output": "b",
    "minibatch": None,
}


class Values(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.path = str(Path(folder.name) / "x.ctf")
        Path(cls.path).write_text("".join(f"|x {i} {i + 1}\n" for i in range(40)))
        cls.data = CTFDeserializer(cls.path, StreamDefs(x=StreamDef(shape=2)))

    def test_mistakes_of_users(self):
        data = self.data
        table = [
            ({"randomize": "no"}, "randomize must be True or False, not 'no'"),
            ({"randomize": 0}, "randomize must be True or False, not 0"),
            ({"randomization_window_in_chunks": -1}, "randomization_window_in_chunks must be at least 0, but is -1"),
            ({"randomization_window_in_samples": -5}, "at least 0, but is -5"),
            ({"max_errors": -1}, "max_errors must be at least 0"),
            ({"truncation_length": -1}, "truncation_length must be at least 0"),
            ({"truncation_length": 2.0}, "truncation_length must be a whole number, not 2.0"),
            ({"workers": 4}, "workers is 4, but no rank was given"),
            ({"workers": 0}, "workers must be at least 1"),
            ({"workers": 2, "rank": 2}, "The rank is 2, but with 2 workers ranks go from 0 to 1"),
            ({"rank": 1}, "The rank is 1, but with 1 worker ranks go from 0 to 0"),
            ({"workers": 2, "rank": -1}, "rank must be at least 0"),
            ({"minibatch_size": True}, "minibatch_size must be a whole number"),
            ({"minibatch_size": 0}, "minibatch_size must be at least 1"),
            ({"max_sweeps": -1}, "max_sweeps must be at least 0"),
            ({"max_samples": math.nan}, "max_samples must be a whole number"),
            ({"precision": "half"}, "precision must be one of 'float', 'double'"),
            ({"trace_level": 3}, "trace_level must be at most 2"),
            ({"lockstep": "yes"}, "lockstep must be True or False"),
            ({"options": [1]}, "options must be a dictionary"),
            ({"randomization_seed": -7}, "randomization_seed must be at least 0"),
        ]
        for options, message in table:
            with self.subTest(options), self.assertRaisesRegex((TypeError, ValueError), message):
                MinibatchSource(data, **options)
        for options in ({"workers": 4}, {"workers": 2, "rank": 2}, {"minibatch_size": "9"}):
            with self.subTest(options), self.assertRaises((TypeError, ValueError)):
                MinibatchSource.from_text(f"deserializers = {data}", **options)

    def test_numbers_of_numpy(self):
        options = {
            "max_sweeps": np.int64(1),
            "minibatch_size": np.uint8(7),
            "workers": np.int32(2),
            "rank": np.int16(1),
        }
        with MinibatchSource(self.data, randomize=np.False_, randomization_seed=np.uint32(3), **options) as source:
            self.assertIs(type(source.workers), int)
            self.assertEqual([source.workers, source.rank, source.minibatch_size], [2, 1, 7])
        chunks = CTFDeserializer(
            self.path, StreamDefs(x=StreamDef(shape=np.int64(2))), chunk_size_in_bytes=np.int64(99)
        )
        with MinibatchSource(chunks, randomize=False) as source:
            self.assertEqual(source.next_minibatch(np.int64(5))["x"].num_samples, 5)

    def test_shares_of_calls(self):
        with MinibatchSource(self.data, randomize=False) as source:
            for options, message in [
                ({"workers": 4}, "without this one's rank"),
                ({"workers": 2, "rank": 2}, "ranks go from 0 to 1"),
                ({"rank": 1}, "ranks go from 0 to 0"),
                ({"workers": 0}, "at least 1"),
                ({"workers": 2.0, "rank": 0}, "whole number"),
            ]:
                with self.subTest(options=options), self.assertRaisesRegex((TypeError, ValueError), message):
                    source.next_minibatch(5, **options)
            for size in (0, -1, 2.5, "5", True, math.nan, 2**64):
                with self.subTest(size=size), self.assertRaises((TypeError, ValueError)):
                    source.next_minibatch(size)
            # A refused call changes nothing, and True is not accepted as 1.
            self.assertEqual(source.next_minibatch(1)["x"].array.ravel().tolist(), [0, 1])
            with self.assertRaises(TypeError):
                source.next_minibatch(True)
            self.assertEqual(source.next_minibatch(1)["x"].array.ravel().tolist(), [1, 2])

    def test_forms(self):
        with MinibatchSource(self.data, randomize=False) as source:
            stream = source.next_minibatch(3)["x"]
            self.assertTrue(np.isnan(stream.padded(math.nan, 2).array[0, 1]).all())
            for call, value in [
                (lambda value: stream.padded(0, value), (-1, 1.5, True, "3", math.nan)),
                (stream.padded, ("x", None, True, [1])),
                (stream.padded_indices, (1.5, True, 2**31, "x")),
                (source.next_minibatch(3).key_text, (-1, 0.0, "0", True)),
            ]:
                for one in value:
                    with self.subTest(call, value=one), self.assertRaises((TypeError, ValueError)):
                        call(one)

    def test_lengths_and_numbers_of_chunks(self):
        """Values outside the range of the library's types are refused, not truncated."""
        infos = [StreamInformation("x", 0, "dense", np.float32, (1,))]
        values = np.zeros((4, 1), np.float32)

        class Data(cntk_reader.ComposableUserDeserializer):
            def __init__(self, listed, lengths):
                self.listed, self.lengths = listed, lengths

            def stream_infos(self):
                return infos

            def num_chunks(self):
                return 1

            def get_sequences(self, chunk_id):
                return self.listed

            def get_chunk(self, chunk_id):
                return {"x": SequenceArray(values, self.lengths)}

        right = SequenceList(2, [2, 2])
        with MinibatchSource(Data(right, [2, 2]), max_sweeps=1) as source:
            self.assertEqual(source.next_minibatch(4)["x"].num_samples, 4)
        for lengths in (
            [-2, 6],
            [2.5, 1.5],
            [2**32 + 2, 2],
            [True, True],
            ["2", "2"],
            np.ma.array([2, 2], mask=[0, 1]),
        ):
            with self.subTest(lengths):
                with self.assertRaises(cntk_reader.ReaderError):
                    MinibatchSource(Data(SequenceList(2, lengths), [2, 2]))
                with self.assertRaises(cntk_reader.ReaderError):
                    MinibatchSource(Data(right, lengths)).next_minibatch(4)

    def test_sizes_of_chunks(self):
        for size in (0, -3, 2.5, True, "9", math.nan):
            with self.subTest(size), self.assertRaisesRegex((TypeError, ValueError), "chunk_size must"):
                from_arrays(x=np.zeros((3, 2), np.float32), chunk_size=size)


if __name__ == "__main__":
    unittest.main()
