"""Reads CNTK's training data without CNTK: the same minibatches, in the same order, as arrays.

The arrays are NumPy arrays and SciPy matrices.

```python
from cntk_reader import CTFDeserializer, MinibatchSource, StreamDef, StreamDefs

streams = StreamDefs(features=StreamDef(shape=64), labels=StreamDef(shape=10, is_sparse=True))
with MinibatchSource(CTFDeserializer("digits.train.ctf", streams), minibatch_size=64) as source:
    for epoch in source.epochs(10):
        for minibatch in epoch:
            train(minibatch["features"].array, minibatch["labels"].csr)
```
"""

try:
    from . import _native
except ImportError as error:
    # The failure to load an extension that exists is not explained by this.
    if "cannot import name" not in str(error):
        raise
    raise ImportError(
        f"The folder {__path__[0]!r} is a checkout of cntk_reader without the compiled extension. Build it (cargo xtask "
        "build), or remove the folder from PYTHONPATH to import the installed package."
    ) from None
from ._arrays import ArrayDeserializer, OneHot, from_arrays, one_hot
from ._configuration import (
    CBFDeserializer,
    CTFDeserializer,
    Deserializer,
    NumpyDeserializer,
    StreamDef,
    StreamDefs,
)
from ._convert import (
    htk_to_kaldi,
    htk_to_numpy,
    kaldi_to_htk,
    kaldi_to_mlf,
    kaldi_to_numpy,
    mlf_to_kaldi,
    mlf_to_numpy,
    mlf_to_text,
    text_to_mlf,
)
from ._csv import from_csv
from ._epoch import Epoch
from ._errors import ReaderError, ReaderValueError
from ._figures import Member, Memory, Progress, Sizes
from ._files import FileSystem, RemoteFile, compress, mount, unmount
from ._folder import Normalize, from_folder
from ._forms import Bags, Packed, PackedIndices, Padded, PaddedIndices, Sparse
from ._images import (
    Base64ImageDeserializer,
    Cast,
    Color,
    Crop,
    ImageDeserializer,
    Intensity,
    Mean,
    Scale,
    Transpose,
)
from ._minibatch import GAP, RECORD, Minibatch, StreamInformation, StreamMinibatch
from ._process import ERROR, INFO, WARNING, get_threads, set_log_callback, set_threads
from ._source import MinibatchSource
from ._speech import (
    HTKFeatureDeserializer,
    HTKMLFBinaryDeserializer,
    HTKMLFDeserializer,
    KaldiDeserializer,
    LatticeDeserializer,
)
from ._table import from_table
from ._transform import Draw, ImageInfo, Transform
from ._user import ComposableUserDeserializer, SequenceArray, SequenceList, UserDeserializer

__version__: str = _native.version
#: Path of the extension module, which contains the whole library.
library_path: str = _native.__file__

__all__ = [
    "ArrayDeserializer",
    "Bags",
    "Base64ImageDeserializer",
    "CBFDeserializer",
    "CTFDeserializer",
    "Cast",
    "Color",
    "ComposableUserDeserializer",
    "Crop",
    "Deserializer",
    "Draw",
    "ERROR",
    "Epoch",
    "FileSystem",
    "GAP",
    "HTKFeatureDeserializer",
    "HTKMLFBinaryDeserializer",
    "HTKMLFDeserializer",
    "INFO",
    "ImageDeserializer",
    "ImageInfo",
    "Intensity",
    "KaldiDeserializer",
    "LatticeDeserializer",
    "Mean",
    "Member",
    "Memory",
    "Minibatch",
    "MinibatchSource",
    "Normalize",
    "NumpyDeserializer",
    "Packed",
    "PackedIndices",
    "Padded",
    "PaddedIndices",
    "Progress",
    "RECORD",
    "OneHot",
    "ReaderError",
    "ReaderValueError",
    "Scale",
    "RemoteFile",
    "SequenceArray",
    "SequenceList",
    "Sizes",
    "Sparse",
    "StreamDef",
    "StreamDefs",
    "StreamInformation",
    "StreamMinibatch",
    "Transform",
    "Transpose",
    "UserDeserializer",
    "WARNING",
    "compress",
    "from_arrays",
    "from_csv",
    "from_folder",
    "from_table",
    "get_threads",
    "htk_to_kaldi",
    "htk_to_numpy",
    "kaldi_to_htk",
    "kaldi_to_mlf",
    "kaldi_to_numpy",
    "library_path",
    "mlf_to_kaldi",
    "mlf_to_numpy",
    "mlf_to_text",
    "mount",
    "one_hot",
    "set_log_callback",
    "set_threads",
    "text_to_mlf",
    "unmount",
]
