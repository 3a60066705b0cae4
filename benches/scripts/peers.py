"""Times how another library reads a file: peers.py LIBRARY FILE THREADS COLUMNS

Prints one line of JSON: the version of the library, the seconds of the call that reads, and the
numbers of rows and values and the sum of (column + 1) * value, which are not timed. THREADS sets
the threads of libraries that have such a setting.
"""

import json
import os
import sys
import time

library, path, threads, columns = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
for variable in ("POLARS_MAX_THREADS", "OMP_NUM_THREADS"):
    os.environ[variable] = str(threads)

import numpy  # noqa: E402 (the variables must be set before)

weights = numpy.arange(1, columns + 1, dtype=numpy.float64)
names = [f"c{column}" for column in range(columns)]


def timed(read):
    begin = time.perf_counter()
    result = read()
    return result, time.perf_counter() - begin


def of_table(rows, sums):
    return {"rows": rows, "values": rows * columns, "weighted": float(numpy.dot(weights, numpy.asarray(sums)))}


def of_matrix(matrix):
    sums = numpy.bincount(matrix.indices, weights=matrix.data.astype(numpy.float64), minlength=columns)
    return {"rows": matrix.shape[0], "values": int(matrix.nnz), "weighted": float(numpy.dot(weights, sums))}


def polars():
    import polars

    schema = {name: polars.Float32 for name in names}
    frame, seconds = timed(lambda: polars.read_csv(path, has_header=False, schema=schema))
    sums = [frame[name].cast(polars.Float64).sum() for name in names]
    return polars.__version__, seconds, of_table(frame.height, sums)


def pyarrow():
    import pyarrow
    import pyarrow.compute
    import pyarrow.csv

    pyarrow.set_cpu_count(threads)
    read = pyarrow.csv.ReadOptions(column_names=names)
    convert = pyarrow.csv.ConvertOptions(column_types={name: pyarrow.float32() for name in names})
    table, seconds = timed(lambda: pyarrow.csv.read_csv(path, read_options=read, convert_options=convert))
    sums = [pyarrow.compute.sum(table[name].cast(pyarrow.float64())).as_py() for name in names]
    return pyarrow.__version__, seconds, of_table(table.num_rows, sums)


def duckdb():
    import duckdb

    database = duckdb.connect(config={"threads": threads})
    types = ", ".join(f"'{name}': 'FLOAT'" for name in names)
    read = f"read_csv('{path}', header = false, auto_detect = false, delim = ',', columns = {{{types}}})"
    _, seconds = timed(lambda: database.execute(f"create table data as from {read}"))
    rows, *sums = database.execute(
        f"select count(*), {', '.join(f'sum({name}::double)' for name in names)} from data"
    ).fetchone()
    return duckdb.__version__, seconds, of_table(rows, sums)


def xgboost():
    import xgboost

    matrix, seconds = timed(lambda: xgboost.DMatrix(f"{path}?format=libsvm", nthread=threads))
    return xgboost.__version__, seconds, of_matrix(matrix.get_data())


def scikit_learn():
    import sklearn
    from sklearn.datasets import load_svmlight_file

    options = {"dtype": numpy.float32, "n_features": columns, "zero_based": True}
    (matrix, _), seconds = timed(lambda: load_svmlight_file(path, **options))
    return sklearn.__version__, seconds, of_matrix(matrix)


readers = {
    "polars": polars,
    "pyarrow": pyarrow,
    "duckdb": duckdb,
    "xgboost": xgboost,
    "scikit-learn": scikit_learn,
}
version, seconds, found = readers[library]()
print(json.dumps({"version": version, "seconds": seconds, **found}))
