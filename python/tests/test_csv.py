"""CSV files: streams of columns, types, categories, missing values, and messages about broken
files."""

import gzip
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import numpy as np
from cntk_reader import MinibatchSource, _csv, from_csv

from .loops import next_epoch

HOUSES = "rooms,area,city,price\n3,70.5,Bonn,100\n4,80,Köln,200\n2,50.25,Bonn,50\n"


def streams(data):
    """Returns the arrays of each stream, by name, in the data's order."""
    with MinibatchSource(data, randomize=False) as source:
        (minibatch,) = next_epoch(source, 100)
        return {name: minibatch[name].packed().values for name in source.streams}


class Csv(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def file(self, content, name="t.csv"):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def check(self, data, **expected):
        found = streams(data)
        self.assertEqual(list(found), list(expected))
        for name, (dtype, values) in expected.items():
            self.assertEqual((str(found[name].dtype), found[name].tolist()), (dtype, values), name)

    def refuse(self, content, message, kind=ValueError, **options):
        path = self.file(content)
        with self.subTest(message), self.assertRaisesRegex(kind, message):
            from_csv(path, **options)


class Streams(Csv):
    def test_each_column_is_a_stream(self):
        data = from_csv(self.file(HOUSES))
        self.check(
            data,
            rooms=("int64", [3, 4, 2]),
            area=("float32", [70.5, 80, 50.25]),
            city=("int64", [0, 1, 0]),
            price=("int64", [100, 200, 50]),
        )
        self.assertEqual(data.categories, {"city": ["Bonn", "Köln"]})
        self.assertIn(
            "3 sequences of rooms () int64, 3 samples; area () float32, 3 samples; city () int64 of 2 categories",
            repr(data),
        )

    def test_groups_and_the_rest(self):
        path = self.file(HOUSES)
        data = from_csv(path, x=["area", "rooms"], place="city", price="price", dtypes={"price": "float32"})
        self.check(
            data,
            x=("float32", [[70.5, 3], [80, 4], [50.25, 2]]),
            place=("int64", [0, 1, 0]),
            price=("float32", [100, 200, 50]),
        )
        self.check(
            from_csv(path, y="price", x="*", city="city"),
            y=("int64", [100, 200, 50]),
            x=("float32", [[3, 70.5], [4, 80], [2, 50.25]]),
            city=("int64", [0, 1, 0]),
        )

    def test_categories_of_numbers_and_of_other_data(self):
        path = self.file("zip,kind\n01234,a\n00007,b\n01234,a\n")
        train = from_csv(path, dtypes={"zip": "category"})
        self.check(train, zip=("int64", [1, 0, 1]), kind=("int64", [0, 1, 0]))
        self.assertEqual(train.categories, {"zip": ["00007", "01234"], "kind": ["a", "b"]})
        test = self.file("zip,kind\n01234,b\n", "test.csv")
        self.check(from_csv(test, categories=train.categories), zip=("int64", [1]), kind=("int64", [1]))
        both = from_csv(self.file("a,b\nx,y\ny,z\n"), words=["a", "b"])
        self.check(both, words=("int64", [[0, 1], [1, 2]]))
        with self.assertRaisesRegex(ValueError, "test.csv, stream 'kind': line 2, column 'kind': 'b' is none of the 1"):
            from_csv(test, kind="kind", categories={"kind": ["a"]})
        with self.assertRaisesRegex(ValueError, "have 'a' twice"):
            from_csv(test, kind="kind", categories={"kind": ["a", "a"]})

    def test_keys_make_sequences(self):
        path = self.file("who,x\nb,1\nb,2\na,3\n")
        data = from_csv(path, keys="who")
        with MinibatchSource(data, randomize=False) as source:
            (minibatch,) = next_epoch(source, 10)
            self.assertEqual([part.tolist() for part in minibatch["x"].as_sequences()], [[1, 2], [3]])
            self.assertEqual([minibatch.key_text(i) for i in range(2)], ["b", "a"])
        self.refuse("who,x\nb,1\na,2\nb,3\n", "line 4: the key 'b' of the column 'who' was in use before", keys="who")
        self.refuse("who,x\n,1\n", "line 2, column 'who'.*a value is missing", keys="who")
        self.refuse("who,x\nb,1\n", "no column 'how'. Did you mean 'who'?", keys="how")

    def test_forms_of_files(self):
        expected = {"a": ("int64", [1, 3]), "b": ("float32", [2.5, 4])}
        for name, content, options in [
            ("t.tsv", "a\tb\n1\t2.5\n3\t4\n", {}),
            ("t.csv", "a;b\r\n1;2,5\r\n3;4\r\n", {"decimal": ","}),
            ("t.csv", "a|b\n\n1|2.5\n\n3|4", {}),
            ("t.csv", "\ufeffa , b\n1, 2.5\n 3,4e0\n", {}),
            ("t.csv", '"a","b"\n"1","2.5"\n3,4.0\n', {}),
            ("t.csv", "1 2.5\n3 4\n", {"names": ["a", "b"], "delimiter": " "}),
            ("t.csv.gz", gzip.compress(b"a,b\n1,2.5\n3,4\n"), {}),
            ("t.csv", "a,b\n1,2.5\n3,4\n".encode("utf-16"), {"encoding": "utf-16"}),
            ("t.csv", "a,b\r1,2.5\r3,4\r", {}),
        ]:
            with self.subTest(content):
                self.check(from_csv(self.file(content, name), **options), **expected)
        quoted = from_csv(self.file('"x, in m";t\n1;"a ""b""\nc"\n2;d\n'))
        self.assertEqual(quoted.categories["t"], ['a "b"\nc', "d"])
        self.assertEqual(list(streams(quoted)), ["x, in m", "t"])

    def test_blocks(self):
        count = 70_000
        lines = "".join(f"{i},{i / 2},{'even' if i % 2 == 0 else 'odd'}\n" for i in range(count))
        path = self.file("i,half,kind\n" + lines)
        with MinibatchSource(from_csv(path), randomize=False) as source:
            (minibatch,) = next_epoch(source, count)
            found = {name: minibatch[name].packed().values for name in source.streams}
        self.assertTrue((found["i"] == np.arange(count)).all())
        self.assertTrue((found["half"] == np.arange(count, dtype=np.float32) / 2).all())
        self.assertTrue((found["kind"] == np.arange(count) % 2).all())
        late = self.file("i,half,kind\n" + lines + "7,oops,odd\n", "late.csv")
        with self.assertRaisesRegex(ValueError, f"line {count + 2}, column 'half' .number 2.: 'oops' is not a number"):
            from_csv(late)


class Missing(Csv):
    TABLE = "n,x,t\n1,NA,a\n,2.5,\n3,nan,b\n4,5,a\n"

    def test_is_an_error(self):
        for column, line, shown in [("n", 3, ""), ("x", 2, "NA"), ("t", 3, "")]:
            message = f"line {line}, column '{column}' .*: a value is missing \\('{shown}'\\).*missing={{'{column}': "
            self.refuse(self.TABLE, message, s=column)

    def test_is_filled(self):
        data = from_csv(self.file(self.TABLE), missing={"n": 0, "x": -1, "t": "c"})
        self.check(data, n=("int64", [1, 0, 3, 4]), x=("float32", [-1, 2.5, -1, 5]), t=("int64", [0, 2, 1, 0]))
        self.assertEqual(data.categories["t"], ["a", "b", "c"])
        self.refuse(self.TABLE, "missing: There is no column 'm'. There are: n, x, t", missing={"m": 1})
        self.refuse(self.TABLE, "a number is missing, but missing is 'c'", missing="c")

    def test_rows_are_dropped(self):
        data = from_csv(self.file(self.TABLE), missing="drop")
        self.check(data, n=("int64", [4]), x=("float32", [5]), t=("int64", [0]))
        self.assertEqual(data.categories["t"], ["a"])
        # The row of 'b' is in line 4, although line 3 is left out.
        self.refuse(self.TABLE, "line 4, column 't': 'b' is none", t="t", missing="drop", categories={"t": ["a", "c"]})
        self.refuse("a\nNA\nNA\n", "there are no rows below the line of names, except 2", missing="drop")


class Messages(Csv):
    def test_content(self):
        for content, message, options in [
            ("", "the file is empty", {}),
            ("\n\n", "the file is empty", {}),
            ("a,b\n", "there are no rows below the line of names", {}),
            ("a,b\n1,2\n3\n", "line 3: there is 1 field separated by ',', but 2 columns: '3'", {}),
            ("a,b\n1,2\n3,4,5\n", "line 3: there are 3 fields", {}),
            ("a,a\n1,2\n", "line 1: two columns have the name 'a'", {}),
            (
                "1,2\n3,4\n",
                r"line 1: names of columns were expected, but there are only numbers.*names=\['x0', 'x1'",
                {},
            ),
            ("1,2\n3,4\n", "there are 2 columns, but 3 names", {"names": ["a", "b", "c"]}),
            ("a\n1\n2\nx\n3\n", "line 4, column 'a' .*'x' is not a number, .*'category'", {}),
            ("a\n1\ninf\n", "line 3, column 'a'.*'inf' is not a finite number", {}),
            ('a,b\n1,"x\n2,y\n', "line 3: unexpected end of data. Is a quotation mark", {}),
            ('a,b\n1,"x"y\n', "line 2: .*Is a quotation mark", {}),
            ("a;b\n1;2,5\n3;4,5\n", "has numbers with commas, such as '2,5': pass decimal=','", {}),
            (b"a\n1\n\xe4\n", r"line 3: 'ä' is not text in the encoding 'utf-8'.*encoding='latin-1'", {}),
            ("a\n1\n".encode("utf-16"), "encoding='utf-16'", {}),
            (b"PK\x03\x04rest", "binary file, not a CSV file", {}),
            (b"PAR1rest", "binary file.*from_table", {}),
            (gzip.compress(b"a\n1\n"), "name that ends in .gz", {}),
        ]:
            self.refuse(content, message, **options)
        with self.assertRaisesRegex(ValueError, "t.csv.gz"):
            from_csv(self.file("a\n1\n", "t.csv.gz"))
        with self.assertRaisesRegex(ValueError, "t.csv.gz: .*truncated"):
            text = "".join(f"{i * 7919 % 10007}\n" for i in range(20000))
            from_csv(self.file(gzip.compress(f"a\n{text}".encode())[:-400], "t.csv.gz"))
        with self.assertRaisesRegex(FileNotFoundError, "missing.csv"):
            from_csv(self.folder / "missing.csv")
        with self.assertRaises(IsADirectoryError):
            from_csv(self.folder)

    def test_numbers_may_be_names(self):
        self.check(from_csv(self.file("2019,2020\n1,2\n"), x=["2019", "2020"]), x=("float32", [[1, 2]]))

    def test_arguments(self):
        for message, kind, options in [
            ("stream 'y': There is no column 'prize'. Did you mean 'price'?", ValueError, {"y": "prize"}),
            ("no option 'delimeter'. Did you mean 'delimiter'", TypeError, {"delimeter": 5}),
            ("If 'delimeter' is an option: did you mean 'delimiter'", ValueError, {"delimeter": ";"}),
            ("Stream 'y' is 5, but must be the name of a column", TypeError, {"y": 5}),
            ("Stream 'y' is \\[\\]", TypeError, {"y": []}),
            ("has the column 'rooms' twice", ValueError, {"y": ["rooms", "rooms"]}),
            ("'city' has texts, the column 'rooms' numbers.*city='city'", TypeError, {"x": ["rooms", "city"]}),
            ("'city' has texts, such as 'Bonn', but numbers", TypeError, {"x": "city", "dtypes": {"x": "float32"}}),
            ("dtypes: There is no stream 'z'", ValueError, {"x": "city", "dtypes": {"z": "float32"}}),
            (
                "There is no type 'flaot32'. Did you mean 'float32'",
                ValueError,
                {"x": "area", "dtypes": {"x": "flaot32"}},
            ),
            (
                "'area' has 70.5, which is not a value of the type int64",
                ValueError,
                {"x": "area", "dtypes": {"x": "int64"}},
            ),
            (
                "'price' has 200, .* of the type int8|There is no type",
                ValueError,
                {"x": "price", "dtypes": {"x": "int8"}},
            ),
            ("'price' has 100|'price' has 200", ValueError, {"x": "price", "dtypes": {"x": "bool"}}),
            ("categories: There is no stream 'q'", ValueError, {"categories": {"q": ["a"]}}),
            ("also the type 'float32'", ValueError, {"dtypes": {"city": "float32"}, "categories": {"city": ["Bonn"]}}),
            ("delimiter must be one character", ValueError, {"delimiter": "::"}),
            ("There is no encoding 'utf-9'", ValueError, {"encoding": "utf-9"}),
            (
                "has no columns: all of them are in other",
                ValueError,
                {"x": "*", "y": ["rooms", "area", "city", "price"]},
            ),
            ("decimal must be one of", ValueError, {"decimal": ";"}),
        ]:
            self.refuse(HOUSES, message, kind, **options)
        with self.assertRaisesRegex(ValueError, "path is an empty path"):
            from_csv("")


class Blocks(Csv):
    """Files of several blocks: NumPy parses those after the first one, if they have plain numbers."""

    def setUp(self):
        super().setUp()
        for name, value in (("_BLOCK", 6), ("_HAS_FAST_LOADTXT", True)):
            patch = mock.patch.object(_csv, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        self.fast = []
        numbers = _csv._Block.numbers

        def kept(block, places):
            made = numbers(block, places)
            self.fast.append(made is not None)
            return made

        patch = mock.patch.object(_csv._Block, "numbers", kept)
        patch.start()
        self.addCleanup(patch.stop)

    def table(self, rows):
        return self.file("a,b,c\n" + "".join(f"{row}\n" for row in rows))

    def test_whole_numbers_stay_whole(self):
        rows = ["1,0.5,x", "2,1.5,y", "3,2.5,x", "-4,3,y", "5,4.5,z", "9007199254740993,5,x"]
        self.check(
            from_csv(self.table(rows)),
            a=("int64", [1, 2, 3, -4, 5, 9007199254740993]),
            b=("float32", [0.5, 1.5, 2.5, 3, 4.5, 5]),
            c=("int64", [0, 1, 0, 1, 2, 0]),
        )
        self.assertEqual(self.fast, [True, True])

    def test_a_later_fraction_makes_all_of_them_fractions(self):
        for number in ("5.0", "5e0", "5.5"):
            data = from_csv(self.table(["1,0,x", "2,0,y", "3,0,x", "4,0,y", f"{number},0,z"]))
            self.assertEqual(streams(data)["a"].dtype, np.float32, number)

    def test_unusual_numbers_and_quotation_marks(self):
        for odd in ("1_0", '"10"', " 10 "):
            data = from_csv(self.table(["1,0,x", "2,0,y", "3,0,x", f"{odd},0,y", "5,0,x", "6,0,x"]))
            self.assertEqual(streams(data)["a"].tolist(), [1, 2, 3, 10, 5, 6], odd)

    def test_mistakes_in_a_later_block(self):
        rows = ["1,0,x", "2,0,y", "", "3,0,x", "4,0,y"]
        for row, message in (
            (",0,x", r"line 7, column 'a' \(number 1\): a value is missing"),
            ("inf,0,x", r"line 7, column 'a' \(number 1\): 'inf' is not a finite number"),
            ("5,?5,x", r"line 7, column 'b' \(number 2\): '\?5' is not a number"),
            ("5,0", "line 7: there are 2 fields separated by ',', but 3 columns"),
            ('5,0,"x', r"line 7: .*Is a quotation mark \(\"\) not closed"),
        ):
            with self.subTest(row), self.assertRaisesRegex(ValueError, message):
                from_csv(self.table([*rows, row]))

    def test_dropped_rows(self):
        rows = ["1,0,x", "2,0,y", "3,0,", "4,0,y", ",0,x", "6,0,x"]
        data = from_csv(self.table(rows), missing="drop")
        self.check(data, a=("int64", [1, 2, 4, 6]), b=("int64", [0] * 4), c=("int64", [0, 1, 1, 0]))


if __name__ == "__main__":
    unittest.main()
