"""Wrong arguments: errors list the options and show a correct call."""

import dataclasses
import inspect
import tempfile
import unittest
from pathlib import Path

import cntk_reader
import numpy as np
from cntk_reader import (
    CBFDeserializer,
    Crop,
    CTFDeserializer,
    KaldiDeserializer,
    MinibatchSource,
    StreamDef,
    StreamDefs,
    from_arrays,
    set_threads,
)

from .loops import minibatches_of

OF_IMAGES = {field.name for field in dataclasses.fields(cntk_reader.ImageDeserializer)}


class Explain(unittest.TestCase):
    def message(self, call, kind=TypeError):
        """Returns the text of the error that the call raises."""
        with self.assertRaises(kind) as caught:
            call()
        return str(caught.exception)

    def test_number_is_not_a_stream(self):
        message = self.message(lambda: StreamDefs(features=64))
        self.assertIn("The stream 'features' is 64, not a StreamDef.", message)
        self.assertIn("StreamDefs(features=StreamDef(shape=64)", message)
        message = self.message(lambda: CTFDeserializer("a.ctf", {"features": 64}))
        self.assertIn("The stream 'features' is 64", message)
        message = self.message(lambda: CBFDeserializer("a.cbf", [StreamDef()]))
        self.assertIn("Streams must be given by name", message)

    def test_unknown_option_suggests_nearest(self):
        message = self.message(lambda: StreamDef(shapes=64))
        self.assertIn("StreamDef has no option 'shapes'. Did you mean 'shape'?", message)
        self.assertIn("is_sparse", message)
        message = self.message(lambda: CTFDeserializer("a.ctf", StreamDefs(x=StreamDef(shape=1)), maxErrors=1))
        self.assertIn("Did you mean 'max_errors'?", message)
        self.assertIn('For example: CTFDeserializer("train.ctf", StreamDefs(', message)
        message = self.message(lambda: Crop(zebra=1))
        self.assertNotIn("Did you mean", message)
        self.assertIn("side_ratio", message)
        digits = CTFDeserializer("a.ctf", StreamDefs(x=StreamDef(shape=1)))
        self.assertIn("Did you mean 'randomize'?", self.message(lambda: MinibatchSource(digits, randomise=False)))

    def test_methods_and_functions_list_their_options(self):
        data = from_arrays(x=np.zeros((4, 2), np.float32))
        with MinibatchSource(data, minibatch_size=2) as source:
            message = self.message(lambda: source.epochs(sampels=3))
            self.assertIn("MinibatchSource.epochs has no option 'sampels'. Did you mean 'samples'?", message)
            self.assertIn("For example: for epoch in source.epochs(10): ...", message)
            self.assertIn("minibatch['x']", self.message(lambda: next(iter(source))["y"], KeyError))
            self.assertIn("There is no stream 'y'. There are: x.", self.message(lambda: source.streams["y"], KeyError))
        message = self.message(lambda: from_arrays(x=np.zeros(4, np.float32), length=[2, 2]))
        self.assertIn("no option of from_arrays 'length'. Did you mean 'lengths'?", message)
        self.assertIn("from_arrays(words=words", self.message(lambda: from_arrays(np.zeros(4, np.float32))))
        self.assertIn("StreamDefs(features=StreamDef(", self.message(lambda: StreamDefs(64)))

    def test_numbers_are_checked(self):
        data = from_arrays(x=np.zeros((4, 2), np.float32))
        for call, kind, expected in [
            (lambda source: source.next_minibatch(1.5), TypeError, "whole number, not 1.5"),
            (lambda source: source.next_minibatch("2"), TypeError, "whole number, not '2'"),
            (lambda source: source.next_minibatch(True), TypeError, "whole number"),
            (lambda source: source.next_minibatch(0), ValueError, "at least 1, but is 0"),
            (lambda source: source.next_minibatch(2**64), ValueError, "at most 18446744073709551615"),
            (lambda source: source.epochs(-4), ValueError, "at least 0, but is -4"),
            (lambda source: source.epochs(samples="3"), TypeError, "whole number, not '3'"),
            (lambda source: source.epochs(start=-1), ValueError, "start must be at least 0"),
            (lambda source: source.next_minibatch(2)["x"].padded("a"), TypeError, "a number, not 'a'"),
            (lambda source: source.next_minibatch(2)["x"].padded(0, -1), ValueError, "at least 0, but is -1"),
            (lambda source: source.next_minibatch(2)["x"].padded_indices(0.5), TypeError, "whole number, not 0.5"),
            (lambda source: source.next_minibatch(2)["x"].padded_indices(2**31), ValueError, "at most 2147483647"),
            (lambda source: set_threads(-1), ValueError, "number of threads must be at least 0"),
            (lambda source: MinibatchSource(data, max_samples=-5), ValueError, "max_samples must be at least 0"),
            (lambda source: MinibatchSource(data, max_sweeps=1.5), TypeError, "max_sweeps must be a whole number"),
        ]:
            with self.subTest(expected), MinibatchSource(data) as source:
                self.assertIn(expected, self.message(lambda call=call, source=source: call(source), kind))

    def test_numbers_of_numpy(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.ctf"
            path.write_text("".join(f"|x {i} 1\n" for i in range(9)))
            data = CTFDeserializer(path, StreamDefs(x=StreamDef(shape=np.int64(2))), max_errors=np.int32(1))
            options = {"randomization_seed": np.int64(3), "max_sweeps": np.int8(1), "randomize": np.bool_(True)}
            with MinibatchSource(data, workers=np.int64(1), rank=np.int64(0), **options) as source:
                self.assertEqual([len(one["x"].array[0]) for one in minibatches_of(source, np.int64(4))], [4, 4, 1])
            with MinibatchSource(data, truncation_length=np.int64(2)) as source:
                self.assertEqual(source.next_minibatch(2)["x"].num_samples, 2)

    def test_missing_argument_shows_example(self):
        message = self.message(lambda: CTFDeserializer("a.ctf"))
        self.assertIn("missing a required argument: 'streams'", message)
        self.assertIn("For example: CTFDeserializer(", message)

    def test_wrong_types_are_named(self):
        for shape in ("64", 6.4, [64], (3, "4"), True):
            self.assertIn("StreamDef(shape=(28, 28))", self.message(lambda shape=shape: StreamDef(shape=shape)))
        self.assertIn("is not a name", self.message(lambda: StreamDef(64)))
        self.assertIn("CTFDeserializer(", self.message(lambda: MinibatchSource("train.ctf")))
        two = StreamDefs(a=StreamDef(shape=1, scp="a"), b=StreamDef(shape=1, scp="b"))
        self.assertIn("2 were given", self.message(lambda: KaldiDeserializer(two).section(), ValueError))

    def test_help_describes_all_members(self):
        """`help` on dataclasses and named tuples describes all members."""
        count = 0
        for name in cntk_reader.__all__:
            value = getattr(cntk_reader, name)
            if not inspect.isclass(value):
                continue
            members = [one.name for one in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else []
            for member in members or getattr(value, "_fields", ()):
                count += 1
                with self.subTest(f"{name}.{member}"):
                    text = inspect.getdoc(value)
                    inherited = member in OF_IMAGES and "Otherwise as :class:`ImageDeserializer`" in text
                    is_shown = f"``{member}``" in text or f"``{member}=" in text or inherited
                    # The single stream is shown by example.
                    self.assertTrue(is_shown or (member == "streams" and "StreamDef(" in text), text)
        self.assertGreater(count, 80)

    def test_class_is_not_a_deserializer(self):
        message = self.message(lambda: MinibatchSource(CTFDeserializer))
        self.assertIn("A source reads deserializers, but <class", message)

    def test_image_shares_are_at_most_one(self):
        for option in ("side_ratio", "area_ratio"):
            for value in (2, 1.5, (0.5, 1.5), -0.1):
                with self.subTest(option, value=value):
                    self.assertIn(option, self.message(lambda: Crop("RandomSide", **{option: value}), ValueError))  # noqa: B023
        self.assertEqual(Crop("RandomSide", aspect_ratio=5.0).aspect_ratio, 5.0)

    def test_none_option_is_named(self):
        data = CTFDeserializer("a.ctf", StreamDefs(x=StreamDef(shape=3)))
        message = self.message(lambda: MinibatchSource(data, options={"prefetch": None}))
        self.assertIn("The option 'prefetch' is None.", message)

    def test_state_numbers_are_nonnegative_integers(self):
        for is_begun in (False, True):
            with MinibatchSource(from_arrays(x=np.ones((3, 1), np.float32)), minibatch_size=1) as source:
                if is_begun:
                    source.next_minibatch()
                for value, kind in ((1.5, TypeError), ("1", TypeError), (True, TypeError), (-1, ValueError)):
                    with self.subTest(value, is_begun=is_begun):
                        state = {**source.cntk_state(), "minibatchSourcePosition": value}
                        message = self.message(lambda: source.load_state_dict(state), kind)  # noqa: B023
                        self.assertIn("'minibatchSourcePosition' of the state", message)
                self.assertEqual(source.next_minibatch()["x"].num_samples, 1)

    def test_library_errors_use_python_names(self):
        """Errors name options as Python does, without configuration lines; texts keep theirs."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.ctf"
            for text, stream, options, wanted in (
                (
                    "nonsense\n",
                    StreamDef(shape=3),
                    {},
                    "Begin the file with an id, that is digits and white space, or with '|', which makes each line a sequence.",
                ),
                (
                    "0 |x 7:1\n",
                    StreamDef(shape=3, is_sparse=True),
                    {},
                    "Set 'shape' to one more than the largest index",
                ),
                ("0 |x 1 2\n", StreamDef(shape=2, is_sparse=True), {}, "set 'is_sparse=False' if it is plain values"),
                ("0 |y 1 2\n", StreamDef(shape=2), {}, "as its alias: 'field=\"y\"'"),
                ("0 |x 1\n0 |x 2\n", StreamDef(shape=1), {"frame_mode": True}, "'frame_mode=True' needs sequences"),
                (
                    "u |x 1\n",
                    StreamDef(shape=1),
                    {},
                    "Set 'options={\"useNumericSequenceKeys\": False}' in the 'MinibatchSource'",
                ),
            ):
                with self.subTest(text):
                    path.write_text(text)
                    source = CTFDeserializer(path, StreamDefs(x=stream))
                    message = self.message(
                        lambda: MinibatchSource(source, **options).next_minibatch(1),  # noqa: B023
                        cntk_reader.ReaderError,
                    )
                    self.assertIn(wanted, message)
                    self.assertNotIn("of the configuration.", message)
            path.write_text("0 |x 7:1\n")
            config = (
                'deserializers = ([ type = "CNTKTextFormatDeserializer" ; module = "CNTKTextFormatReader"\n'
                f'file = "{path}" ; input = [ x = [ dim = 3 ; format = "sparse" ] ] ])'
            )
            message = self.message(lambda: MinibatchSource.from_text(config).next_minibatch(1), cntk_reader.ReaderError)
            self.assertIn("Set 'dim' to one more than the largest index", message)

    def test_signatures_show_no_sentinels(self):
        """Signatures in `help` contain no numbers like 18446744073709551615."""
        for name in cntk_reader.__all__:
            value = getattr(cntk_reader, name)
            members = vars(value).values() if inspect.isclass(value) else [value]
            for member in members:
                member = getattr(member, "__func__", member)
                if not inspect.isfunction(member):
                    continue
                for parameter in inspect.signature(member).parameters.values():
                    if isinstance(parameter.default, int):
                        self.assertLess(abs(parameter.default), 2**32, f"{name}.{member.__name__}({parameter})")


if __name__ == "__main__":
    unittest.main()
