"""Wrong arguments: errors list what exists, and show a right call."""

import unittest

import cntk_reader
from cntk_reader import (
    CBFDeserializer,
    Crop,
    CTFDeserializer,
    KaldiDeserializer,
    MinibatchSource,
    StreamDef,
    StreamDefs,
)


class Explain(unittest.TestCase):
    def message(self, call, kind=TypeError):
        """The text of the error that the call raises."""
        with self.assertRaises(kind) as caught:
            call()
        return str(caught.exception)

    def test_a_number_is_no_stream(self):
        message = self.message(lambda: StreamDefs(features=64))
        self.assertIn("The stream 'features' is 64, not a StreamDef.", message)
        self.assertIn("StreamDefs(features=StreamDef(shape=64)", message)
        message = self.message(lambda: CTFDeserializer("a.ctf", {"features": 64}))
        self.assertIn("The stream 'features' is 64", message)
        message = self.message(lambda: CBFDeserializer("a.cbf", [StreamDef()]))
        self.assertIn("Streams are given by name", message)

    def test_unknown_options_are_named_with_the_nearest_one(self):
        message = self.message(lambda: StreamDef(shapes=64))
        self.assertIn("There is no option of StreamDef 'shapes'. Did you mean 'shape'?", message)
        self.assertIn("is_sparse", message)
        message = self.message(lambda: CTFDeserializer("a.ctf", StreamDefs(x=StreamDef(shape=1)), maxErrors=1))
        self.assertIn("Did you mean 'max_errors'?", message)
        self.assertIn('For example: CTFDeserializer("train.ctf", StreamDefs(', message)
        message = self.message(lambda: Crop(zebra=1))
        self.assertNotIn("Did you mean", message)
        self.assertIn("side_ratio", message)
        digits = CTFDeserializer("a.ctf", StreamDefs(x=StreamDef(shape=1)))
        self.assertIn("Did you mean 'randomize'?", self.message(lambda: MinibatchSource(digits, randomise=False)))

    def test_missing_arguments_come_with_a_call(self):
        message = self.message(lambda: CTFDeserializer("a.ctf"))
        self.assertIn("missing a required argument: 'streams'", message)
        self.assertIn("For example: CTFDeserializer(", message)

    def test_wrong_types_are_named(self):
        for shape in ("64", 6.4, [64], (3, "4"), True):
            self.assertIn("StreamDef(shape=(28, 28))", self.message(lambda shape=shape: StreamDef(shape=shape)))
        self.assertIn("is no name", self.message(lambda: StreamDef(64)))
        self.assertIn("CTFDeserializer(", self.message(lambda: MinibatchSource("train.ctf")))
        two = StreamDefs(a=StreamDef(shape=1, scp="a"), b=StreamDef(shape=1, scp="b"))
        self.assertIn("2 were given", self.message(lambda: KaldiDeserializer(two).section(), ValueError))

    def test_defaults_are_words(self):
        """No signature that `help` shows has a number like 18446744073709551615."""
        import inspect

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
