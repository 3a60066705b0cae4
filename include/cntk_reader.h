/*
 * cntk_reader.h: reads CNTK's training data.
 *
 * This file is generated from the library's source (cargo xtask header). Do not edit it.
 *
 * A reader is opened from a configuration in CNTK's configuration language. It delivers the
 * minibatches of an epoch with the values, the order, the layout and the checkpoint state of CNTK
 * 2.7. A complete program:
 *
 *     #include <cntk_reader.h>
 *     #include <stdio.h>
 *
 *     static int fail(cntk_reader_error *error) {
 *       fprintf(stderr, "%s\n", cntk_reader_error_get_text(error));
 *       cntk_reader_error_free(error);
 *       return 1;
 *     }
 *
 *     int main(int argc, char **argv) {
 *       cntk_reader *reader;
 *       cntk_reader_error *error;
 *       cntk_reader_source source = CNTK_READER_SOURCE_INIT;
 *       source.file = argc > 1 ? argv[1] : "digits.cntk";
 *       if (cntk_reader_open(&source, &reader, &error) != CNTK_READER_STATUS_OK) return fail(error);
 *
 *       cntk_reader_epoch epoch = CNTK_READER_EPOCH_INIT;
 *       epoch.minibatch_size = 32;
 *       epoch.sweeps = 1;
 *       if (cntk_reader_epoch_start(reader, &epoch, &error) != CNTK_READER_STATUS_OK) return fail(error);
 *
 *       for (;;) {
 *         const cntk_reader_minibatch *minibatch;
 *         cntk_reader_outcome outcome;
 *         if (cntk_reader_minibatch_next(reader, CNTK_READER_NO_TIMEOUT, &minibatch, &outcome, &error) != CNTK_READER_STATUS_OK)
 *           return fail(error);
 *         if (outcome == CNTK_READER_OUTCOME_END_OF_EPOCH) break;
 *         cntk_reader_minibatch_info info = {.struct_size = sizeof info};
 *         cntk_reader_minibatch_describe(minibatch, &info, NULL);
 *         for (size_t i = 0; i < info.stream_count; ++i) {
 *           cntk_reader_minibatch_stream stream = {.struct_size = sizeof stream};
 *           cntk_reader_minibatch_stream_describe(minibatch, i, &stream, NULL);
 *           printf("stream %zu: %zu samples, %zu values at %p\n", i, stream.samples, stream.value_count, stream.values);
 *         }
 *         cntk_reader_minibatch_release(minibatch);
 *       }
 *       cntk_reader_free(reader);
 *       return 0;
 *     }
 *
 * The C++ header over this one is cntk_reader.hpp.
 *
 * Installing
 * ----------
 * `cargo xtask build` creates a tree with include/, lib/, lib/cmake/ and lib/pkgconfig/, which may
 * be copied anywhere.
 *
 * Linking
 * -------
 * CMake: find_package(cntk_reader CONFIG REQUIRED) and target_link_libraries(you PRIVATE
 * cntk_reader::cntk_reader).
 * pkg-config: `pkg-config --cflags --libs cntk_reader` (add --static for the static library's
 * dependencies).
 * By hand: -lcntk_reader; the static library also needs -lpthread -ldl -lm and, with GNU tools,
 * -lgcc_s. The library only exports symbols that begin with cntk_reader_.
 *
 * Names
 * -----
 * Functions are called cntk_reader_<noun>_<verb>; for the reader itself the noun is omitted.
 * Enumerators begin with the name of their enum. The data of a stream in a minibatch are columns of
 * values. A column is a time step of a lane (CNTK: a parallel sequence), and holds a sample or a
 * gap. Sequences consist of samples. A sweep is one pass over the data. A chunk is the unit of
 * loading and randomization. A worker is one of several processes that share the data.
 *
 * Ownership
 * ---------
 * Handles are opaque. A handle that a call returns through a pointer belongs to the caller:
 *
 *     handle                    returned by                             released by
 *     cntk_reader               cntk_reader_open                        cntk_reader_free
 *     cntk_reader_error         any call that fails                     cntk_reader_error_free
 *     cntk_reader_minibatch     cntk_reader_minibatch_next, _read       cntk_reader_minibatch_release
 *                               and _retain
 *     cntk_reader_buffer        cntk_reader_checkpoint_save             cntk_reader_buffer_free
 *     cntk_reader_options       cntk_reader_options_create, _copy       cntk_reader_options_free
 *     cntk_reader_canceller     cntk_reader_canceller_create            cntk_reader_canceller_free
 *
 * Every other pointer that a call returns is borrowed from the handle that was queried, and is
 * valid as long as that handle. Handles may be released in any order: minibatches, buffers and
 * errors outlive their reader. The library copies its inputs. After a call returns, it keeps only
 * callbacks, their userdata, and the arrays of a user-defined deserializer until their chunk is
 * released. All functions that free or release accept NULL.
 *
 * Handles are checked at no measurable cost. A call with a released handle, or with a handle of
 * another type that was cast or came through void *, returns CNTK_READER_STATUS_INVALID_ARGUMENT;
 * the error names the function, the parameter, and the handle that was found. Functions without a
 * status do nothing, and log a line of severity CNTK_READER_LOG_LEVEL_ERROR; so a second release
 * does no harm. A released handle is known until 4096 later ones were released. After that, and
 * during a release by another thread, its use is undefined behaviour like that of any other
 * invalid pointer.
 *
 * Errors
 * ------
 * Functions that can fail return a cntk_reader_status: CNTK_READER_STATUS_OK, which is 0, or the
 * kind of error. Outputs are the last parameters, and are written only on success. The very last
 * parameter is a place for an error object, which may be NULL, and is written only on failure. The
 * object has the message, CNTK's class of exception and the location: file, line, byte offset,
 * stream, sequence key. NULL for a required argument is an error, not a crash; a pointer that is
 * neither NULL, nor valid, nor a handle that was released recently, is undefined behaviour. A panic
 * inside the library is contained: the call returns CNTK_READER_STATUS_INTERNAL, and its reader
 * refuses all further calls.
 *
 * Threads
 * -------
 * A reader is exclusive: any thread may use it, but only one at a time; a second one gets
 * CNTK_READER_STATUS_STATE. Several readers may be used concurrently. Minibatches, buffers, errors
 * and the descriptions of streams are immutable and may be shared. Functions without a handle may
 * be called from any thread. The library starts its own threads with the first reader. They run no
 * code of the caller except log callbacks, mounted file systems, and user-defined deserializers and
 * transforms, whose documentation says on how many threads. A conversion calls its progress
 * callback on the thread that runs it.
 *
 * Exceptions
 * ----------
 * No C++ exception may escape from a callback or a finalizer. The library is not written in C++ and
 * cannot catch it, so the process would terminate. Callbacks in C++ must catch everything, and
 * report it with cntk_reader_failure_set_message; cntk_reader.hpp does this.
 *
 * Callbacks must return. A callback that ends its thread (pthread_exit) parks the thread until the
 * process ends, and no more user code runs. Loading chunks of user-defined deserializers then fails
 * with CNTK_READER_STATUS_STATE. Calls that wait for such a thread for a file system, a log line,
 * or sequences that several threads fetch do not return. The library's own threads are not
 * cancelled by pthread_cancel.
 *
 * Fork
 * ----
 * A reader belongs to the process that opened it. In the child of a fork its calls return
 * CNTK_READER_STATUS_STATE, and cntk_reader_free returns at once without freeing memory. The data
 * of minibatches that were read before the fork stay readable there, but not their textual keys.
 * The child may open its own readers.
 *
 * Strings
 * -------
 * Strings are UTF-8. Inputs have a length in bytes, or CNTK_READER_NUL_TERMINATED. Outputs are
 * NUL-terminated.
 *
 * Versions
 * --------
 * There is one ABI number, CNTK_READER_ABI_VERSION, which is also in the library's SONAME:
 * libcntk_reader.so.1. While it stays the same, only functions, enumerators and trailing struct
 * members are added, so a program runs with any library that is not older than its header. Structs
 * that begin with struct_size may grow: set it to sizeof, as the _INIT macros do, and programs and
 * libraries of different versions work together.
 *
 * CNTK_READER_VERSION is a semantic version. Before 1.0, programs must be recompiled for a new
 * minor version: CMake's find_package and users of pkg-config request one minor version. From 1.0
 * on they request a major version.
 */


#ifndef CNTK_READER_H
#define CNTK_READER_H

#include <stddef.h>
#include <stdint.h>

/** The version of this header. */
#define CNTK_READER_VERSION_MAJOR 0
#define CNTK_READER_VERSION_MINOR 1
#define CNTK_READER_VERSION_PATCH 0

/** The version as one number, like the result of cntk_reader_version_get. */
#define CNTK_READER_VERSION \
  (CNTK_READER_VERSION_MAJOR * 1000000 + CNTK_READER_VERSION_MINOR * 1000 + CNTK_READER_VERSION_PATCH)

/** The ABI number of this header: see cntk_reader_version_get_abi. */
#define CNTK_READER_ABI_VERSION 1

/** In place of a length: the string is NUL-terminated. */
#define CNTK_READER_NUL_TERMINATED SIZE_MAX

/** The sequence number of a record that is a gap. */
#define CNTK_READER_GAP UINT64_MAX

/** As the only dimension of a shape: the shape depends on the data. */
#define CNTK_READER_UNKNOWN_DIMENSION (SIZE_MAX - 1)

/** An unknown number: a byte offset, or an amount of data. */
#define CNTK_READER_UNKNOWN UINT64_MAX

/** Epoch size in samples: no limit (CNTK: infinitely repeat). */
#define CNTK_READER_UNLIMITED_SAMPLES UINT64_C(0x7fffffffffffffff)

/** Epoch size in samples: one sweep, regardless of its size (CNTK: full data sweep). */
#define CNTK_READER_ONE_SWEEP UINT64_C(0x3fffffffffffffff)

/** Epoch size in sweeps: no limit; the size in samples applies. */
#define CNTK_READER_UNLIMITED_SWEEPS UINT64_MAX

/** A rank that is not set; only valid for a single worker. */
#define CNTK_READER_NO_RANK UINT64_MAX

/** A timeout in milliseconds: wait without limit. */
#define CNTK_READER_NO_TIMEOUT UINT64_MAX

/** Initial value of a cntk_reader_source. One of text, file and options must be set. */
#define CNTK_READER_SOURCE_INIT \
  {sizeof(cntk_reader_source), NULL, CNTK_READER_NUL_TERMINATED, NULL, CNTK_READER_NUL_TERMINATED, \
   NULL, NULL, 0, NULL, 0, NULL, NULL, CNTK_READER_NUL_TERMINATED}

/** Initial value of a cntk_reader_epoch. The minibatch size must be set. */
#define CNTK_READER_EPOCH_INIT \
  {sizeof(cntk_reader_epoch), 1, CNTK_READER_NO_RANK, 0, 0, 0, 1, CNTK_READER_UNLIMITED_SAMPLES, CNTK_READER_UNLIMITED_SWEEPS, 0}

/** Initial value of a cntk_reader_configuration. The minibatch size must be set. */
#define CNTK_READER_CONFIGURATION_INIT {sizeof(cntk_reader_configuration), 1, CNTK_READER_NO_RANK, 0, 0, 0, 1}

/**
 * Initial value of a cntk_reader_conversion: text to binary, chunks of 32 MiB, single precision. Paths
 * must be set.
 */
#define CNTK_READER_CONVERSION_INIT \
  {sizeof(cntk_reader_conversion), 0, 0, NULL, NULL, NULL, 33554432, 0, 0, NULL, NULL, NULL, NULL, 0, 0}


/**
 * Status of a call. Numbers are never reused, and new ones may be added: treat an unknown one as a
 * failure.
 */
typedef enum {
  /**
   * The call succeeded; its outputs are written.
   */
  CNTK_READER_STATUS_OK = 0,
  /**
   * The configuration's text, or one of its values, is invalid.
   */
  CNTK_READER_STATUS_CONFIG = 1,
  /**
   * An argument is invalid: NULL, an index out of range, a minibatch size of 0, a rank beyond
   * the workers.
   */
  CNTK_READER_STATUS_INVALID_ARGUMENT = 2,
  /**
   * The operating system reported an error: a file is missing, a read failed.
   */
  CNTK_READER_STATUS_IO = 3,
  /**
   * The content of a data file is invalid.
   */
  CNTK_READER_STATUS_DATA = 4,
  /**
   * A checkpoint is damaged, or does not match the data or the configuration.
   */
  CNTK_READER_STATUS_CHECKPOINT = 5,
  /**
   * The handle's state does not allow the call: no epoch was started, another thread is using
   * the reader, the process is the child of a fork, an earlier call ended in
   * CNTK_READER_STATUS_INTERNAL.
   */
  CNTK_READER_STATUS_STATE = 6,
  /**
   * A user's callback failed or returned invalid data.
   */
  CNTK_READER_STATUS_USER = 7,
  /**
   * Internal error (a bug in this library). The reader that reported it refuses all further
   * calls; only cntk_reader_free is allowed.
   */
  CNTK_READER_STATUS_INTERNAL = 8,
  /**
   * The call was cancelled by cntk_reader_canceller_cancel without effect. The same call made
   * again continues where it stopped.
   */
  CNTK_READER_STATUS_CANCELLED = 9,
  /**
   * Not enough memory. The reader stays usable: the next call does what the failed one would
   * have done.
   */
  CNTK_READER_STATUS_MEMORY = 10,
} cntk_reader_status;

/**
 * The C++ exception that CNTK throws for this error.
 */
typedef enum {
  /**
   * `std::runtime_error`; Python: `RuntimeError`.
   */
  CNTK_READER_EXCEPTION_RUNTIME_ERROR = 1,
  /**
   * `std::logic_error`; Python: `RuntimeError`.
   */
  CNTK_READER_EXCEPTION_LOGIC_ERROR = 2,
  /**
   * `std::invalid_argument`; Python: `ValueError`.
   */
  CNTK_READER_EXCEPTION_INVALID_ARGUMENT = 3,
} cntk_reader_exception;

/**
 * How the values of a stream are stored.
 */
typedef enum {
  /**
   * All values of every sample.
   */
  CNTK_READER_STORAGE_DENSE = 0,
  /**
   * Compressed sparse columns, one column per sample.
   */
  CNTK_READER_STORAGE_SPARSE_CSC = 1,
} cntk_reader_storage;

/**
 * Type of a value. The numbers are CNTK's for the types that CNTK has.
 */
typedef enum {
  /**
   * `float`, 4 bytes.
   */
  CNTK_READER_ELEMENT_FLOAT = 1,
  /**
   * `double`, 8 bytes.
   */
  CNTK_READER_ELEMENT_DOUBLE = 2,
  /**
   * IEEE half precision, 2 bytes.
   */
  CNTK_READER_ELEMENT_FLOAT16 = 4,
  /**
   * `int16_t`.
   */
  CNTK_READER_ELEMENT_INT16 = 6,
  /**
   * `uint8_t`.
   */
  CNTK_READER_ELEMENT_UINT8 = 16,
  /**
   * `int32_t`.
   */
  CNTK_READER_ELEMENT_INT32 = 17,
  /**
   * `int64_t`.
   */
  CNTK_READER_ELEMENT_INT64 = 18,
  /**
   * bfloat16: the upper 2 bytes of a `float`.
   */
  CNTK_READER_ELEMENT_BFLOAT16 = 19,
  /**
   * Boolean: a byte that is 0 or 1.
   */
  CNTK_READER_ELEMENT_BOOL = 20,
} cntk_reader_element;

/**
 * State of an epoch.
 */
typedef enum {
  /**
   * No epoch was started and no checkpoint restored yet.
   */
  CNTK_READER_EPOCH_NONE = 0,
  /**
   * The epoch was started, and its end was not reported yet.
   */
  CNTK_READER_EPOCH_STARTED = 1,
  /**
   * A checkpoint from the middle of the epoch was restored: cntk_reader_epoch_start_next
   * continues with the rest of it.
   */
  CNTK_READER_EPOCH_RESUMED = 2,
  /**
   * The end of the epoch was reported: cntk_reader_minibatch_next returned
   * CNTK_READER_OUTCOME_END_OF_EPOCH, or cntk_reader_minibatch_read a minibatch past the end.
   */
  CNTK_READER_EPOCH_OVER = 3,
} cntk_reader_epoch_state;

/**
 * Outcome of cntk_reader_minibatch_next.
 */
typedef enum {
  /**
   * A minibatch was read.
   */
  CNTK_READER_OUTCOME_MINIBATCH = 0,
  /**
   * The epoch is over: there is no minibatch, in this and in later calls.
   */
  CNTK_READER_OUTCOME_END_OF_EPOCH = 1,
  /**
   * The timeout expired before a minibatch was ready. A later call returns it.
   */
  CNTK_READER_OUTCOME_PENDING = 2,
} cntk_reader_outcome;

/**
 * Severity of a log line.
 */
typedef enum {
  /**
   * Always reported.
   */
  CNTK_READER_LOG_LEVEL_ERROR = 0,
  /**
   * Reported at `traceLevel` 1 (the default) and above, and at every level for warnings about
   * dropped sequences.
   */
  CNTK_READER_LOG_LEVEL_WARNING = 1,
  /**
   * Reported at `traceLevel` 2 and above.
   */
  CNTK_READER_LOG_LEVEL_INFO = 2,
} cntk_reader_log_level;

/**
 * The interface in which a reader's options were written. Messages use its names for options.
 */
typedef enum {
  /**
   * A configuration in CNTK's language.
   */
  CNTK_READER_FRONT_END_CONFIGURATION = 0,
  /**
   * The Rust crate.
   */
  CNTK_READER_FRONT_END_RUST = 1,
  /**
   * The classes of cntk_reader.hpp.
   */
  CNTK_READER_FRONT_END_CPP = 2,
  /**
   * The classes of the Python package.
   */
  CNTK_READER_FRONT_END_PYTHON = 3,
} cntk_reader_front_end;

/**
 * Input and output format of a conversion.
 */
typedef enum {
  /**
   * From a text file (CTF) to a binary file (CBF), by the rules of CNTK's script ctf2bin.py: ids
   * are compared as text, a stream name without values adds no sample, and sequences are
   * numbered in the order of the file.
   */
  CNTK_READER_DIRECTION_TEXT_TO_BINARY = 0,
  /**
   * From a binary file to a text file that reads back to the same bits in the file's precision.
   * Sequence ids are ordinals. A value without a textual form (a NaN other than the usual two)
   * is an error.
   */
  CNTK_READER_DIRECTION_BINARY_TO_TEXT = 1,
  /**
   * From HTK features, listed by the script `input`, to a Kaldi archive of float matrices.
   * `script` is optional.
   */
  CNTK_READER_DIRECTION_HTK_TO_KALDI = 2,
  /**
   * From features of a Kaldi script (`.scp`) or archive to one big-endian HTK archive with 10 ms
   * per frame. `script` is required; its keys get the extension `.mfc`, which readers do not
   * treat as part of the key.
   */
  CNTK_READER_DIRECTION_KALDI_TO_HTK = 3,
  /**
   * From HTK features to a NumPy archive (`.npz`): one float32 array of frames times values per
   * utterance, named by its key.
   */
  CNTK_READER_DIRECTION_HTK_TO_NUMPY = 4,
  /**
   * From features of a Kaldi script or archive to a NumPy archive, as from HTK features.
   */
  CNTK_READER_DIRECTION_KALDI_TO_NUMPY = 5,
  /**
   * From a label file (MLF), text or binary, to a Kaldi archive of int32 vectors. `script` is
   * optional; `states` is required if lines have no class numbers.
   */
  CNTK_READER_DIRECTION_MLF_TO_KALDI = 6,
  /**
   * From int32 vectors of a Kaldi script or archive to a textual label file with 10 ms per
   * frame.
   */
  CNTK_READER_DIRECTION_KALDI_TO_MLF = 7,
  /**
   * From a label file to a text file (CTF) with one sparse stream named `streams`, one line per
   * frame.
   */
  CNTK_READER_DIRECTION_MLF_TO_TEXT = 8,
  /**
   * From the one-hot stream named `streams` of a text file to a label file. Ids become keys.
   */
  CNTK_READER_DIRECTION_TEXT_TO_MLF = 9,
  /**
   * From a label file to a NumPy archive: one int32 array per utterance, with a class number for
   * each frame.
   */
  CNTK_READER_DIRECTION_MLF_TO_NUMPY = 10,
  /**
   * From any file to a zstd-compressed file whose frames can be decompressed independently. A
   * reader treats it like the plain file if its name ends in `.zst`. Progress counts frames
   * instead of sequences.
   */
  CNTK_READER_DIRECTION_TO_ZSTD = 11,
} cntk_reader_direction;

/**
 * How the samples of a stream are grouped into the sequences of a chunk.
 */
typedef enum {
  /**
   * One array; each of its samples is a sequence.
   */
  CNTK_READER_GROUPING_SAMPLES = 0,
  /**
   * One array with the samples of all sequences, one sequence after another; `lengths` has the
   * number of samples of each.
   */
  CNTK_READER_GROUPING_SEQUENCES = 1,
  /**
   * One array per sequence.
   */
  CNTK_READER_GROUPING_ARRAYS = 2,
} cntk_reader_grouping;

/**
 * Result of a file system's callback.
 */
typedef enum {
  /**
   * Success.
   */
  CNTK_READER_FILE_STATUS_OK = 0,
  /**
   * Permanent failure.
   */
  CNTK_READER_FILE_STATUS_FAILED = 1,
  /**
   * Temporary failure. The callback is retried at most four times within four seconds.
   */
  CNTK_READER_FILE_STATUS_AGAIN = 2,
} cntk_reader_file_status;

/**
 * A reader of minibatches. Open it with cntk_reader_open, free it with cntk_reader_free.
 *
 * Threads: exclusive. It may move between threads, but only one thread may be inside a call at a
 * time; a second one gets CNTK_READER_STATUS_STATE. The descriptions of its streams may be read at
 * any time.
 * Fork: belongs to the process that opened it; in a child, every call returns
 * CNTK_READER_STATUS_STATE.
 */
typedef struct cntk_reader cntk_reader;

/**
 * A buffer of bytes, owned by the caller. Free it with cntk_reader_buffer_free.
 *
 * Threads: immutable, may be shared. It may outlive its reader.
 */
typedef struct cntk_reader_buffer cntk_reader_buffer;

/**
 * Cancels long-running calls from another thread: opening a reader, starting an epoch, setting a
 * configuration, reading and restoring. Create it with cntk_reader_canceller_create, set it as
 * `canceller` of a cntk_reader_source, and free it with cntk_reader_canceller_free. It may serve
 * several readers, whose calls it cancels together.
 *
 * User code (deserializers, transforms, mounted file systems) is not interrupted. If it runs on
 * another thread, the call stops waiting for it; if it runs on the thread of the call, the call
 * ends after it.
 *
 * Threads: may be shared.
 */
typedef struct cntk_reader_canceller cntk_reader_canceller;

/**
 * An error with its message and location. Returned by a failing call; free it with
 * cntk_reader_error_free.
 *
 * Threads: immutable, may be shared.
 */
typedef struct cntk_reader_error cntk_reader_error;

/**
 * Receives the error of a failing callback: see cntk_reader_failure_set_message.
 *
 * Threads: exclusive, during the callback only.
 */
typedef struct cntk_reader_failure cntk_reader_failure;

/**
 * A reference-counted minibatch, which owns its data. cntk_reader_minibatch_next and
 * cntk_reader_minibatch_read return one reference, cntk_reader_minibatch_retain adds one, and
 * cntk_reader_minibatch_release releases one. Releasing the last one recycles the memory for later
 * minibatches. A minibatch may outlive its reader.
 *
 * Threads: immutable, may be shared; references are counted atomically.
 * Fork: in a child, the data may be read, but not textual keys; releasing does nothing.
 */
typedef struct cntk_reader_minibatch cntk_reader_minibatch;

/**
 * The options of a reader, deserializer, stream or transform, with typed values. They nest: a
 * reader's options contain those of its deserializers, which contain those of their streams, and
 * so on. The names are the keys of CNTK's configuration language. Values need no quotes and are
 * taken literally, without comments, variables or defaults, so paths and stream names may contain
 * any characters. Set as `options` of a cntk_reader_source.
 *
 * For example, a reader of the stream `features` of a text file takes four objects: the stream's
 * options, dim = 784 and format = "dense"; `input`, with the stream as its section `features`; the
 * deserializer's options, type = "CNTKTextFormatDeserializer", module = "CNTKTextFormatReader",
 * file and input; and the reader's options, with the deserializer in `deserializers`.
 *
 * Threads: may be shared while no thread changes it.
 */
typedef struct cntk_reader_options cntk_reader_options;

/**
 * The parts of an error. Strings are UTF-8, NUL-terminated, and valid as long as the error.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_error_info), set by the caller.
   */
  size_t struct_size;
  /**
   * Kind of the error: the status that the failing call returned.
   */
  cntk_reader_status kind;
  /**
   * The exception that CNTK throws.
   */
  cntk_reader_exception exception;
  /**
   * The message alone, in CNTK's words where CNTK reports the same error. Its wording may change
   * between versions.
   */
  const char *message;
  /**
   * Details: what was found, what was expected, what to do about it. "" if there is nothing to
   * add.
   */
  const char *detail;
  /**
   * Path of the data file as written in the configuration, or path of the configuration file; or
   * NULL.
   */
  const char *file;
  /**
   * Byte offset from the start of the file, or CNTK_READER_UNKNOWN.
   */
  uint64_t offset;
  /**
   * Line in the file, or in the text of a configuration without a file, from 1; 0 if unknown.
   */
  uint64_t line;
  /**
   * Name of the stream, or NULL.
   */
  const char *stream;
  /**
   * Key of the sequence as text, or NULL.
   */
  const char *key;
  /**
   * Column in the configuration in characters, from 1; 0 for other errors.
   */
  uint64_t column;
} cntk_reader_error_info;

/**
 * A stream of a user-defined deserializer. Its number is its position in the list.
 */
typedef struct {
  /**
   * Unique name, UTF-8.
   */
  const char *name;
  /**
   * Bytes of the name, or CNTK_READER_NUL_TERMINATED.
   */
  size_t name_length;
  /**
   * Shape of one sample, first dimension varying fastest. May be NULL if `shape_rank` is 0,
   * which means scalars.
   */
  const size_t *shape;
  /**
   * Number of dimensions in `shape`.
   */
  size_t shape_rank;
  /**
   * Storage of the values: a cntk_reader_storage.
   */
  uint32_t storage;
  /**
   * Type of the values: a cntk_reader_element.
   */
  uint32_t element;
  /**
   * 1 if minibatch sizes are measured in this stream's samples, else 0.
   */
  uint32_t defines_mb_size;
  /**
   * Reserved; 0.
   */
  uint32_t reserved;
} cntk_reader_user_stream;

/**
 * Size of a chunk of a user-defined deserializer. Zeros: unknown.
 */
typedef struct {
  /**
   * Samples in all its sequences.
   */
  uint64_t samples;
  /**
   * Number of its sequences.
   */
  uint64_t sequences;
} cntk_reader_chunk_size;

/**
 * The sequences of a chunk that is not loaded yet. The lists must stay valid until the next
 * callback, or until the reader is open.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_user_sequences), set by the library. All other members except `count` are
   * zero when the callback is called.
   */
  size_t struct_size;
  /**
   * Number of sequences; may be 0. Must be set.
   */
  size_t count;
  /**
   * The length of each sequence: samples in the stream that defines the minibatch size, else in
   * the longest stream. NULL: all have one sample.
   */
  const uint32_t *lengths;
  /**
   * The key of each sequence as a number, or NULL. If the reader's keys are texts, a number
   * stands for its decimal text. In a table that a factory has filled in, it is a number of the
   * request's cntk_reader_keys.
   */
  const uint64_t *keys;
  /**
   * The key of each sequence as UTF-8, NUL-terminated or with its length in `key_text_lengths`;
   * or NULL. Without `keys` and `key_texts`, a key is the sequence's ordinal in the whole data.
   */
  const char *const *key_texts;
  /**
   * If each sample of a sequence is a sequence of its own (frame mode), its sample number within
   * the sequence of its key. NULL: 0 for all.
   */
  const uint32_t *sample_indices;
  /**
   * Bytes of each key text, which may then contain NULs, or CNTK_READER_NUL_TERMINATED. NULL:
   * all end with a NUL.
   */
  const size_t *key_text_lengths;
} cntk_reader_user_sequences;

/**
 * Lists the sequences of a chunk that need not be loaded. Returns 0, or a nonzero number on
 * failure.
 */
typedef int32_t (*cntk_reader_list_sequences)(void *userdata,
                                              uint32_t chunk,
                                              cntk_reader_user_sequences *sequences,
                                              cntk_reader_failure *failure);

/**
 * Position, length and key of a sequence.
 */
typedef struct {
  /**
   * Number of its chunk.
   */
  uint32_t chunk;
  /**
   * Its number within the chunk.
   */
  uint32_t index;
  /**
   * Its length in samples.
   */
  uint32_t samples;
  /**
   * Its sample number within the sequence of its key, if each sample of a sequence is a sequence
   * of its own (frame mode); else 0.
   */
  uint32_t sample;
  /**
   * Its key as a number.
   */
  uint64_t key;
} cntk_reader_sequence_info;

/**
 * Finds the sequence that belongs to `of`, a sequence of the reader's first deserializer. If there
 * is one, it writes the chunk, index and length to `sequence`, and 1 to `found`. Returns 0, or a
 * nonzero number on failure.
 */
typedef int32_t (*cntk_reader_find_sequence)(void *userdata,
                                             const cntk_reader_sequence_info *of,
                                             cntk_reader_sequence_info *sequence,
                                             uint32_t *found,
                                             cntk_reader_failure *failure);

/**
 * An array of samples. Initialize with zeros.
 */
typedef struct {
  /**
   * Start of the memory that contains the values. Sparse: the values of all entries.
   */
  const void *values;
  /**
   * Size of that memory in bytes. Nothing outside it is read.
   */
  size_t values_size;
  /**
   * Dense: byte offset of the array's first value.
   */
  size_t byte_offset;
  /**
   * Number of samples.
   */
  size_t samples;
  /**
   * Dense: the shape of a sample, checked against the stream's. NULL: not checked.
   */
  const size_t *shape;
  /**
   * Number of dimensions in `shape`.
   */
  size_t shape_rank;
  /**
   * Dense: strides in bytes, for each dimension of a sample and then for the samples; may be
   * negative or 0. NULL: contiguous, first dimension varying fastest.
   */
  const ptrdiff_t *strides;
  /**
   * Number of strides: `shape_rank` + 1.
   */
  size_t stride_count;
  /**
   * Sparse: the index of each entry within its sample, in any order.
   */
  const void *indices;
  /**
   * Sparse: number of indices.
   */
  size_t index_count;
  /**
   * Sparse: `samples` + 1 ascending entry numbers; sample s has the entries from `offsets[s]` up
   * to, but not including, `offsets[s + 1]`.
   */
  const void *offsets;
  /**
   * Sparse: bytes per index, 4 or 8. Indices are signed.
   */
  uint32_t index_size;
  /**
   * Sparse: bytes per offset, 4 or 8. Offsets are signed.
   */
  uint32_t offset_size;
  /**
   * Type of the values: a cntk_reader_element.
   */
  uint32_t element;
  /**
   * Reserved; 0.
   */
  uint32_t reserved;
} cntk_reader_user_array;

/**
 * One stream's data in a chunk.
 */
typedef struct {
  /**
   * How samples are grouped into sequences: a cntk_reader_grouping.
   */
  uint32_t grouping;
  /**
   * Reserved; 0.
   */
  uint32_t reserved;
  /**
   * The arrays.
   */
  const cntk_reader_user_array *arrays;
  /**
   * Number of arrays: 1, except for CNTK_READER_GROUPING_ARRAYS.
   */
  size_t array_count;
  /**
   * For CNTK_READER_GROUPING_SEQUENCES: the samples of each sequence.
   */
  const uint32_t *lengths;
  /**
   * For CNTK_READER_GROUPING_SEQUENCES: the number of sequences.
   */
  size_t length_count;
} cntk_reader_user_stream_data;

/**
 * A loaded chunk. Everything it points to must stay valid, and values and indices unchanged, until
 * the chunk is released.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_user_chunk), set by the library. All other members except
   * `sequence_count` are zero when the callback is called.
   */
  size_t struct_size;
  /**
   * Identifies the chunk in later callbacks.
   */
  void *handle;
  /**
   * The arrays of each stream, by stream number, all with the same number of sequences. They are
   * read in place, without a copy. NULL if `fetch_sequence` is set.
   */
  const cntk_reader_user_stream_data *streams;
  /**
   * Number of streams in `streams`.
   */
  size_t stream_count;
  /**
   * Number of sequences. Its initial value is CNTK_READER_UNKNOWN. Required if sequences are
   * fetched and `list_sequences` is not used; otherwise optional, and if set, checked against
   * the arrays.
   */
  uint64_t sequence_count;
  /**
   * The length of each sequence in samples, if sequences are fetched and `list_sequences` is not
   * used. NULL: all have one sample. Must be NULL with arrays, which have their own lengths.
   */
  const uint32_t *lengths;
  /**
   * The key of each sequence, if `list_sequences` is not used; requires `sequence_count`. NULL:
   * chunk * 2^32 + index.
   */
  const uint64_t *keys;
} cntk_reader_user_chunk;

/**
 * Loads a chunk. Returns 0, or a nonzero number on failure.
 */
typedef int32_t (*cntk_reader_load_chunk)(void *userdata,
                                          uint32_t chunk,
                                          cntk_reader_user_chunk *loaded,
                                          cntk_reader_failure *failure);

/**
 * Releases a chunk or a sequence. Called once for each handle that a successful callback returned,
 * even if the data are invalid.
 */
typedef void (*cntk_reader_release_handle)(void *userdata, void *handle);

/**
 * A fetched sequence.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_user_sequence), set by the library. All other members are zero when the
   * callback is called.
   */
  size_t struct_size;
  /**
   * Identifies the sequence in later callbacks.
   */
  void *handle;
  /**
   * 1 if the sequence is unusable: it is left out of all streams and counted against the
   * reader's `maxErrors`.
   */
  uint32_t is_invalid;
  /**
   * Reserved; 0.
   */
  uint32_t reserved;
} cntk_reader_user_sequence;

/**
 * Fetches a sequence of a loaded chunk; `index` is its position among the chunk's sequences.
 * Returns 0, or a nonzero number on failure.
 */
typedef int32_t (*cntk_reader_fetch_sequence)(void *userdata,
                                              void *chunk,
                                              uint32_t index,
                                              cntk_reader_user_sequence *sequence,
                                              cntk_reader_failure *failure);

/**
 * A sequence's data in one stream, in the stream's element type.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_user_sequence_data), set by the library. All other members except `key`
   * are zero when the callback is called.
   */
  size_t struct_size;
  /**
   * Number of samples.
   */
  size_t samples;
  /**
   * Dense: the values of all samples, sample by sample. Sparse: the stored values, sample by
   * sample.
   */
  const void *values;
  /**
   * Number of values. Dense: must be `samples` times the size of a sample.
   */
  size_t value_count;
  /**
   * Sparse: the index of each value within its sample.
   */
  const int32_t *indices;
  /**
   * Sparse: the number of values of each sample.
   */
  const int32_t *sample_value_counts;
  /**
   * Shape of a sample, if the stream's description leaves it open.
   */
  const size_t *shape;
  /**
   * Number of dimensions in `shape`.
   */
  size_t shape_rank;
  /**
   * The key that minibatches report. CNTK_READER_UNKNOWN, the initial value, stands for the
   * listed key. Minibatches take it from the first stream, truncated ones from the last.
   */
  uint64_t key;
} cntk_reader_user_sequence_data;

/**
 * Prepares and describes the data of a fetched sequence. `streams` has one struct for each stream.
 * `position` is the sequence's position in its minibatch; invalid sequences have none and are not
 * prepared. All pointers that it writes must stay valid until the sequence is released. Returns 0,
 * or a nonzero number on failure.
 */
typedef int32_t (*cntk_reader_prepare_sequence)(void *userdata,
                                                void *sequence,
                                                uint32_t position,
                                                cntk_reader_user_sequence_data *streams,
                                                cntk_reader_failure *failure);

/**
 * Called once with the userdata that it was registered with, after the last use of that userdata.
 */
typedef void (*cntk_reader_finalizer)(void *userdata);

/**
 * A user-defined deserializer as a table of callbacks. Initialize with zeros and set
 * `struct_size`, `streams`, `stream_count`, `chunk_count` and `load_chunk`. The other callbacks
 * determine the features:
 *
 * - `list_sequences`: sequences are known in advance, which enables the full randomizer, one
 *   timeline for all workers and CNTK's state key "minibatchSourcePosition". Without it, chunks
 *   list their sequences when they are loaded: every worker has its own timeline, windows do not
 *   overlap, and the state has other keys, all as with CNTK's user-defined deserializers.
 *   `composable = false` in the configuration has the same effect.
 * - `find_sequence`: in a deserializer that is not the reader's first, finds the sequence that
 *   belongs to one of the first deserializer. Without it, sequences are matched by the keys that
 *   `list_sequences` returned.
 * - `fetch_sequence` with `prepare_sequence`: a loaded chunk returns its sequences one at a time,
 *   when a minibatch needs them, and no minibatch is assembled in advance. Without them,
 *   `load_chunk` returns arrays.
 *
 * Threads: `list_sequences` and `find_sequence` are called on the thread that opens the reader,
 * before that call returns. `load_chunk` and, for chunks of arrays, `release_chunk` are called on
 * the library's threads, one call at a time unless `thread_safe` is 1. Sequences are fetched and
 * prepared on the thread that reads, or on several at once if the configuration sets
 * `multiThreadedDeserialization`. Sequences, and after all of them their chunk, are released on
 * any thread. Callbacks must not throw. They may use other readers.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_user_deserializer).
   */
  size_t struct_size;
  /**
   * The first argument of every callback.
   */
  void *userdata;
  /**
   * Name in the configuration, UTF-8: the `type` of an element of `deserializers`. May be NULL
   * if there is only one deserializer. Ignored in a table that a factory fills in.
   */
  const char *name;
  /**
   * Bytes of the name, or CNTK_READER_NUL_TERMINATED.
   */
  size_t name_length;
  /**
   * The streams, at least one. A shape whose only dimension is CNTK_READER_UNKNOWN_DIMENSION is
   * taken from the first fetched sequence and must be the same in all others. Copied when the
   * reader is opened.
   */
  const cntk_reader_user_stream *streams;
  /**
   * Number of streams.
   */
  size_t stream_count;
  /**
   * Sizes of the chunks, for checking that the results of `find_sequence` exist; NULL if
   * unknown. Copied.
   */
  const cntk_reader_chunk_size *chunk_sizes;
  /**
   * Number of chunks, at least 1.
   */
  uint32_t chunk_count;
  /**
   * 1 if several threads may load and release chunks at once, else 0.
   */
  uint32_t thread_safe;
  /**
   * Lists the sequences of a chunk before it is loaded. May be NULL.
   */
  cntk_reader_list_sequences list_sequences;
  /**
   * Finds the sequences that belong to those of the reader's first deserializer. May be NULL.
   */
  cntk_reader_find_sequence find_sequence;
  /**
   * Loads a chunk. Must be set.
   */
  cntk_reader_load_chunk load_chunk;
  /**
   * Releases a chunk. May be NULL.
   */
  cntk_reader_release_handle release_chunk;
  /**
   * Fetches a sequence. May be NULL. Requires `prepare_sequence`.
   */
  cntk_reader_fetch_sequence fetch_sequence;
  /**
   * Prepares the data of a fetched sequence. Requires `fetch_sequence`.
   */
  cntk_reader_prepare_sequence prepare_sequence;
  /**
   * Releases a sequence. May be NULL. Requires `fetch_sequence`.
   */
  cntk_reader_release_handle release_sequence;
  /**
   * Called once after all chunks and sequences are released, at the latest when the reader is
   * freed. May be NULL. If opening the reader fails, it is called only for tables that a factory
   * has filled in.
   */
  cntk_reader_finalizer finalizer;
} cntk_reader_user_deserializer;

/**
 * Size and format of an image.
 */
typedef struct {
  /**
   * Width in pixels.
   */
  uint32_t width;
  /**
   * Height in pixels.
   */
  uint32_t height;
  /**
   * Values per pixel: 1 (gray), 3 (blue, green, red), or any number that user code produces.
   */
  uint32_t channels;
  /**
   * Type of the values: a cntk_reader_element, `UINT8`, `FLOAT` or `DOUBLE`.
   */
  uint32_t element;
  /**
   * 0: interleaved, row by row with the channels of a pixel next to each other. 1: planar,
   * channel by channel, each row by row (`Transpose`).
   */
  uint32_t is_planar;
  /**
   * Reserved; 0.
   */
  uint32_t reserved;
} cntk_reader_image_info;

/**
 * Computes the size and format of the transform's result. On entry `result` equals `image`; the
 * callback changes it. It must depend on `image` alone, and is called several times for each
 * image. Returns 0, or a nonzero number on failure.
 */
typedef int32_t (*cntk_reader_describe_image)(void *userdata,
                                              const cntk_reader_image_info *image,
                                              cntk_reader_image_info *result,
                                              cntk_reader_failure *failure);

/**
 * Transforms an image. `values` holds the image's `width * height * channels` values of its type.
 * `result` is the output of `describe_image`, and `result_values` has room for all of its values;
 * its initial contents are unspecified. The two buffers do not overlap, are aligned for their
 * types, and must not be used after the callback returns. `random` was drawn for this image; all
 * randomness must depend on it alone. Returns 0, or a nonzero number on failure.
 */
typedef int32_t (*cntk_reader_transform_image)(void *userdata,
                                               const cntk_reader_image_info *image,
                                               const void *values,
                                               const cntk_reader_image_info *result,
                                               void *result_values,
                                               uint64_t random,
                                               cntk_reader_failure *failure);

/**
 * The part of the decoded image that remains after the crops and scales before a transform.
 */
typedef struct {
  /**
   * First column of the part, in columns of the decoded image. Negative if `Scale` has padded
   * the image.
   */
  double left;
  /**
   * First row of the part, in rows of the decoded image.
   */
  double top;
  /**
   * Width of the part, in columns of the decoded image.
   */
  double width;
  /**
   * Height of the part, in rows of the decoded image.
   */
  double height;
  /**
   * Width of the decoded image.
   */
  uint32_t source_width;
  /**
   * Height of the decoded image.
   */
  uint32_t source_height;
  /**
   * 1 if the image is mirrored (columns in reverse order), else 0.
   */
  uint32_t is_mirrored;
  /**
   * Reserved; 0.
   */
  uint32_t reserved;
} cntk_reader_draw;

/**
 * Transforms an image like cntk_reader_transform_image. `draw` also says which part of the decoded
 * image this one shows, and whether it is mirrored.
 */
typedef int32_t (*cntk_reader_transform_drawn_image)(void *userdata,
                                                     const cntk_reader_image_info *image,
                                                     const void *values,
                                                     const cntk_reader_image_info *result,
                                                     void *result_values,
                                                     uint64_t random,
                                                     const cntk_reader_draw *draw,
                                                     cntk_reader_failure *failure);

/**
 * A user-defined image transform as a table of callbacks. Initialize with zeros and set
 * `struct_size`.
 *
 * An element of the configuration's `transforms` selects it by its name as `type`, without a
 * `module`. It receives images as the preceding transforms have left them, initially as bytes.
 *
 * Threads: the callbacks are called on the thread that reads and on the library's own, one call at
 * a time for each table unless `thread_safe` is 1. They must not throw, and must not use readers
 * of this library.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_user_transform).
   */
  size_t struct_size;
  /**
   * The first argument of every callback.
   */
  void *userdata;
  /**
   * Name in the configuration, UTF-8.
   */
  const char *name;
  /**
   * Bytes of the name, or CNTK_READER_NUL_TERMINATED.
   */
  size_t name_length;
  /**
   * Computes the size and format of the result. NULL: size, type and order of the values stay
   * unchanged.
   */
  cntk_reader_describe_image describe_image;
  /**
   * Transforms an image. Must be set unless `transform_drawn_image` is set.
   */
  cntk_reader_transform_image transform_image;
  /**
   * Called once when the transform is unused, at the latest when the reader is freed. May be
   * NULL. Not called if opening the reader fails.
   */
  cntk_reader_finalizer finalizer;
  /**
   * 1 if several threads may transform images at once, else 0.
   */
  uint32_t thread_safe;
  /**
   * Reserved; 0.
   */
  uint32_t reserved;
  /**
   * Transforms an image, in place of `transform_image`. May be NULL.
   */
  cntk_reader_transform_drawn_image transform_drawn_image;
} cntk_reader_user_transform;

/**
 * The source of a reader: a configuration, and user-defined deserializers and transforms.
 * Initialize with CNTK_READER_SOURCE_INIT, and set exactly one of `text`, `file` and `options`.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_source).
   */
  size_t struct_size;
  /**
   * Text of a configuration in CNTK's configuration language, UTF-8, or NULL. Relative paths in
   * it are resolved against the current directory of the process.
   */
  const char *text;
  /**
   * Bytes of the text, or CNTK_READER_NUL_TERMINATED.
   */
  size_t text_length;
  /**
   * Path of a configuration file, in the operating system's encoding, or NULL. Its includes are
   * followed.
   */
  const char *file;
  /**
   * Bytes of the path, or CNTK_READER_NUL_TERMINATED.
   */
  size_t file_length;
  /**
   * Options of a reader and its deserializers, or NULL. They are copied.
   */
  const cntk_reader_options *options;
  /**
   * User-defined deserializers, or NULL. The tables are copied.
   *
   * An element of the configuration's `deserializers` selects one by its name as `type`, without
   * a `module`. With a single user-defined deserializer, `deserializers` may be omitted, and the
   * configuration may be the empty text "".
   */
  const cntk_reader_user_deserializer *const *deserializers;
  /**
   * Number of them.
   */
  size_t deserializer_count;
  /**
   * User-defined transforms, or NULL. The tables are copied. An element of the configuration's
   * `transforms` selects one by its name as `type`, without a `module`.
   */
  const cntk_reader_user_transform *const *transforms;
  /**
   * Number of them.
   */
  size_t transform_count;
  /**
   * Cancels the opening and later calls of the reader, or NULL. It may be freed before the
   * reader.
   */
  const cntk_reader_canceller *canceller;
  /**
   * Selects a reader if the configuration has several, UTF-8: the keys that lead to its section,
   * such as "train.reader". NULL: the only one.
   */
  const char *reader;
  /**
   * Bytes of the name, or CNTK_READER_NUL_TERMINATED.
   */
  size_t reader_length;
} cntk_reader_source;

/**
 * Properties of a reader. Numbers that are not known yet are CNTK_READER_UNKNOWN: large text files
 * that are not randomized are indexed while they are read, and some user-defined deserializers
 * list the sequences of a chunk only when it is loaded.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_info), set by the caller.
   */
  size_t struct_size;
  /**
   * Number of streams.
   */
  size_t stream_count;
  /**
   * Number of deserializers: see cntk_reader_member_describe.
   */
  size_t member_count;
  /**
   * Samples in one sweep (a pass over the data), in the unit of minibatch and epoch sizes, or
   * CNTK_READER_UNKNOWN.
   */
  uint64_t samples;
  /**
   * Sequences in one sweep, or CNTK_READER_UNKNOWN.
   */
  uint64_t sequences;
  /**
   * Chunks, the units of loading and randomization, or CNTK_READER_UNKNOWN.
   */
  uint64_t chunks;
  /**
   * 1 if sequence keys are numbers in the data, which are then the keys of minibatches. 0 if
   * they are texts, which the keys of minibatches stand for.
   */
  uint32_t numeric_keys;
  /**
   * 1 if workers read in lockstep (`lockstep = true` in the configuration), else 0. In lockstep
   * all workers read the same number of minibatches in an epoch, some of which may have no data.
   */
  uint32_t lockstep;
} cntk_reader_info;

/**
 * Description of a stream. Its pointers are valid as long as the reader.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_stream_info), set by the caller.
   */
  size_t struct_size;
  /**
   * Name, unique among the streams of the reader: UTF-8, NUL-terminated.
   */
  const char *name;
  /**
   * Bytes of the name without the NUL.
   */
  size_t name_length;
  /**
   * The stream's number: its index here and in every minibatch.
   */
  size_t id;
  /**
   * How its values are stored. Truncated readers deliver sparse streams as dense ones, unless
   * `expandSparse` is false.
   */
  cntk_reader_storage storage;
  /**
   * Type of its values.
   */
  cntk_reader_element element;
  /**
   * Shape of one sample, first dimension varying fastest (column-major). If its only dimension
   * is CNTK_READER_UNKNOWN_DIMENSION, the shape is known once a minibatch was read.
   */
  const size_t *shape;
  /**
   * Number of dimensions in `shape`.
   */
  size_t shape_rank;
  /**
   * Values per sample: the product of `shape`.
   */
  size_t sample_size;
  /**
   * 1 if minibatch sizes are measured in this stream's samples, else 0.
   */
  uint32_t defines_mb_size;
  /**
   * 1 if the values are opaque bytes, such as lattices, with four bytes per sample; else 0. In
   * minibatches of whole sequences the bytes of each sequence are contiguous: see
   * `sequence_major` in cntk_reader_minibatch_stream.
   */
  uint32_t is_binary;
  /**
   * Number of classes if the values are class numbers (0 to `classes` - 1), else 0.
   */
  size_t classes;
} cntk_reader_stream_info;

/**
 * One of the deserializers of a reader, in the configuration's order. The first one determines the
 * order of the data. The strings are valid as long as the reader.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_member_info), set by the caller.
   */
  size_t struct_size;
  /**
   * Its file, or the name of a user-defined deserializer: UTF-8, NUL-terminated.
   */
  const char *name;
  /**
   * Its `type` in the configuration: UTF-8, NUL-terminated.
   */
  const char *type_name;
  /**
   * Samples in all its sequences, whether or not other deserializers have them too, or
   * CNTK_READER_UNKNOWN.
   */
  uint64_t samples;
  /**
   * Number of its sequences, or CNTK_READER_UNKNOWN.
   */
  uint64_t sequences;
  /**
   * Number of its chunks, or CNTK_READER_UNKNOWN.
   */
  uint64_t chunks;
} cntk_reader_member_info;

/**
 * Progress of an epoch.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_progress), set by the caller.
   */
  size_t struct_size;
  /**
   * Samples from the start of the epoch to the end of the most recently read minibatch, of all
   * workers. If each worker has its own order (chunks that list their sequences when they are
   * loaded), those of this worker.
   */
  uint64_t delivered;
  /**
   * Samples in the whole epoch, counted like `delivered`, or CNTK_READER_UNKNOWN, also if the
   * epoch has no end. The last sequence of an epoch is delivered whole, so `delivered` may end
   * slightly above it.
   */
  uint64_t expected;
  /**
   * The sweep of the next sample, from 0.
   */
  uint64_t sweep;
} cntk_reader_progress;

/**
 * Memory held by a reader, in bytes. Only the arrays of chunks, minibatches and indexes are
 * counted.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_memory), set by the caller.
   */
  size_t struct_size;
  /**
   * Chunks in the randomization window, prefetched chunks, and memory kept for later ones.
   */
  uint64_t window;
  /**
   * Minibatches that the caller holds, that are ready or in preparation, and memory kept for
   * later ones.
   */
  uint64_t buffers;
  /**
   * Tables of chunks, sequences and keys.
   */
  uint64_t index;
} cntk_reader_memory;

/**
 * Parameters of an epoch. Initialize with CNTK_READER_EPOCH_INIT: one worker, no limit.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_epoch).
   */
  size_t struct_size;
  /**
   * Number of workers that share the data, at least 1.
   */
  uint64_t workers;
  /**
   * Rank of this worker, from 0. CNTK_READER_NO_RANK, the initial value, is an error if there
   * are several workers.
   */
  uint64_t rank;
  /**
   * Global minibatch size: samples of all workers together, at least 1.
   */
  uint64_t minibatch_size;
  /**
   * As in cntk_reader_configuration.
   */
  uint64_t truncation_length;
  /**
   * As in cntk_reader_configuration.
   */
  uint64_t right_splice;
  /**
   * 1 if a minibatch may continue past the end of a sweep, 0 if it ends there.
   */
  uint64_t cross_sweeps;
  /**
   * Size of the epoch in samples of all workers, CNTK_READER_ONE_SWEEP or
   * CNTK_READER_UNLIMITED_SAMPLES. Ignored if `sweeps` is not CNTK_READER_UNLIMITED_SWEEPS.
   */
  uint64_t samples;
  /**
   * Size of the epoch in sweeps (passes over the data), at least 1, or
   * CNTK_READER_UNLIMITED_SWEEPS.
   */
  uint64_t sweeps;
  /**
   * Number of the epoch, from 0: it begins at sample `index` * size of the endless sequence of
   * sweeps. If chunks list their sequences only when they are loaded, and `samples` is the size,
   * an epoch other than the first must directly follow the previous one.
   */
  uint64_t index;
} cntk_reader_epoch;

/**
 * Sizes, workers and flags of the minibatches that follow. Initialize with
 * CNTK_READER_CONFIGURATION_INIT.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_configuration).
   */
  size_t struct_size;
  /**
   * Number of workers that share the data, at least 1.
   */
  uint64_t workers;
  /**
   * Rank of this worker, from 0. CNTK_READER_NO_RANK, the initial value, is an error if there
   * are several workers.
   */
  uint64_t rank;
  /**
   * Global minibatch size: samples of all workers together, at least 1.
   */
  uint64_t minibatch_size;
  /**
   * Time steps of a truncated minibatch; 0 unless the configuration has `truncated = true`.
   * Starting an epoch ignores this and uses the configuration's `truncationLength`.
   */
  uint64_t truncation_length;
  /**
   * Overlap, in steps, of consecutive truncated minibatches of a sequence. Starting an epoch
   * ignores this and uses the configuration's `rightSplice`.
   */
  uint64_t right_splice;
  /**
   * 1 if a minibatch may continue past the end of a sweep, 0 if it ends there.
   */
  uint64_t cross_sweeps;
} cntk_reader_configuration;

/**
 * Properties of a minibatch. `keys` is valid as long as the minibatch.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_minibatch_info), set by the caller.
   */
  size_t struct_size;
  /**
   * 1 if the minibatch reaches or crosses the end of a sweep, else 0.
   */
  uint32_t end_of_sweep;
  /**
   * 1 if it is the last minibatch of the epoch or comes after the last, else 0.
   */
  uint32_t end_of_epoch;
  /**
   * Number of streams: that of the reader, or 0 if the minibatch has no data.
   */
  size_t stream_count;
  /**
   * The key of each sequence as a number, indexed by `sequence` of a cntk_reader_record.
   */
  const uint64_t *keys;
  /**
   * Number of keys, which is the number of sequences.
   */
  size_t key_count;
  /**
   * 1 if the minibatch is a training step: it has data, or workers in lockstep take part in it,
   * some of them without data. Else 0: it comes after the end of the epoch, or none of its data
   * belong to this worker. Always 1 in minibatches from cntk_reader_minibatch_next.
   */
  uint32_t is_step;
  /**
   * Reserved; 0.
   */
  uint32_t reserved;
} cntk_reader_minibatch_info;

/**
 * A run of time steps in one lane (a parallel sequence of the layout) that belongs to one
 * sequence, or to none (a gap).
 */
typedef struct {
  /**
   * Number of the sequence within the minibatch, from 0, the same in all streams; or
   * CNTK_READER_GAP.
   */
  uint64_t sequence;
  /**
   * Lane (parallel sequence), from 0.
   */
  uint64_t lane;
  /**
   * Time step at which the sequence begins. Negative if it began in an earlier minibatch
   * (truncated mode).
   */
  int64_t begin;
  /**
   * The time step after the last one. Greater than the number of steps if the sequence continues
   * in a later minibatch (truncated mode).
   */
  uint64_t end;
} cntk_reader_record;

/**
 * One stream of a minibatch. All pointers are valid as long as the minibatch.
 *
 * The library does not modify the data. A program may modify the values, indices and column
 * offsets in place if it holds all references to the minibatch and no other thread uses them
 * meanwhile.
 *
 * The data are `columns` = `steps` * `lanes` columns of `sample_size` values; step t of lane s is
 * column t * lanes + s. Every column belongs to exactly one record. Columns of gaps hold no data
 * (dense: zeros, sparse: nothing).
 *
 * Binary streams differ in minibatches of whole sequences: if `sequence_major` is 1, step t of
 * lane s is column s * steps + t, so that the samples of a sequence are adjacent. Each sequence
 * then has its own lane, and columns that belong to no record hold zeros.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_minibatch_stream), set by the caller.
   */
  size_t struct_size;
  /**
   * Time steps (CNTK: number of time steps, T).
   */
  size_t steps;
  /**
   * Lanes (CNTK: number of parallel sequences, S).
   */
  size_t lanes;
  /**
   * Columns: steps * lanes, including gaps.
   */
  size_t columns;
  /**
   * Number of columns with data.
   */
  size_t samples;
  /**
   * Number of sequences with data.
   */
  size_t sequences;
  /**
   * The columns of each sequence and the gaps.
   */
  const cntk_reader_record *records;
  /**
   * Number of records, including gaps.
   */
  size_t record_count;
  /**
   * Overlap of truncated minibatches in steps, else 0.
   */
  uint64_t right_splice;
  /**
   * Dense or sparse.
   */
  cntk_reader_storage storage;
  /**
   * Type of the values.
   */
  cntk_reader_element element;
  /**
   * Values per sample, which is the height of a column.
   */
  size_t sample_size;
  /**
   * The values, of type `element`. Dense: column by column. Sparse: the stored values, column by
   * column.
   */
  const void *values;
  /**
   * Number of values. Dense: columns * sample_size. Sparse: the number of stored values.
   */
  size_t value_count;
  /**
   * Sparse: the index of each stored value within its column, from 0. Indices are in the order
   * of the input: they may be unsorted and may repeat. Dense: NULL.
   */
  const int32_t *indices;
  /**
   * Sparse: columns + 1 ascending numbers; column c has the stored values from
   * `column_offsets[c]` up to, but not including, `column_offsets[c + 1]`. Dense: NULL.
   */
  const int32_t *column_offsets;
  /**
   * The whole block in CNTK's layout, aligned to 64 bytes. Dense: the values. Sparse: the number
   * of values as uint64, the values, the int32 indices, the int32 column offsets.
   */
  const void *block;
  /**
   * Bytes of the block.
   */
  size_t block_size;
  /**
   * 1 if step t of lane s is column s * steps + t, else 0.
   */
  uint32_t sequence_major;
  /**
   * 1 if the first `samples` columns are the sequences one after another without gaps, else 0.
   */
  uint32_t is_packed;
  /**
   * Samples of the longest sequence; in truncated mode, of the part in this minibatch.
   */
  size_t longest;
  /**
   * Shape of one sample, first dimension varying fastest (column-major).
   */
  const size_t *shape;
  /**
   * Number of dimensions in `shape`.
   */
  size_t shape_rank;
} cntk_reader_minibatch_stream;

/**
 * One entry of a reader's state.
 */
typedef struct {
  /**
   * Name of the entry, UTF-8. As an output it is NUL-terminated and valid as long as the library
   * is loaded.
   */
  const char *key;
  /**
   * Bytes of the name without the NUL. As an input it may be CNTK_READER_NUL_TERMINATED.
   */
  size_t key_length;
  /**
   * Value of the entry.
   */
  uint64_t value;
} cntk_reader_state_entry;

/**
 * Reports the progress of a conversion from time to time: bytes of the input processed, total
 * bytes of the input, and sequences written. Returns 0 to continue; any other number stops the
 * conversion, which then fails with CNTK_READER_STATUS_USER. Called on the thread that converts.
 * It must not throw.
 */
typedef uint32_t (*cntk_reader_progress_callback)(void *userdata,
                                                  uint64_t bytes,
                                                  uint64_t total,
                                                  uint64_t sequences);

/**
 * A conversion of a file. Initialize with CNTK_READER_CONVERSION_INIT. Strings are UTF-8 and
 * NUL-terminated.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_conversion).
   */
  size_t struct_size;
  /**
   * Input and output format: a cntk_reader_direction.
   */
  uint32_t direction;
  /**
   * Reserved; 0.
   */
  uint32_t reserved;
  /**
   * Path of the file to read.
   */
  const char *input;
  /**
   * Path of the file to write. It appears only when complete, and replaces an existing file.
   */
  const char *output;
  /**
   * For text to binary: the streams in the order of the binary file, one per line, as
   * `name alias dense|sparse dimension`; `alias` is the name in the text, `name` the name in the
   * binary file. For text and labels: the name of the stream in the text. Otherwise NULL.
   */
  const char *streams;
  /**
   * For text to binary: bytes per chunk. 0 makes every sequence a chunk.
   */
  uint64_t chunk_size;
  /**
   * For text to binary: 0 for single precision, 1 for double.
   */
  uint32_t double_precision;
  /**
   * For text to binary: 1 to form chunks as CNTK's ctf2bin.py does, with one sequence per chunk
   * after the first chunk, so that the output is byte-identical; else 0.
   */
  uint32_t ctf2bin_compatible;
  /**
   * Reports progress while the conversion runs, or NULL.
   */
  cntk_reader_progress_callback progress;
  /**
   * First argument of `progress`.
   */
  void *userdata;
  /**
   * For HTK and Kaldi archives: path of the script to write, which lists the utterances of the
   * archive; or NULL.
   */
  const char *script;
  /**
   * For label files: path of the list of states, or NULL if lines have class numbers.
   */
  const char *states;
  /**
   * For labels to text: 1 to number sequences from 0, 0 to use the utterances' keys as ids.
   */
  uint32_t number_ids;
  /**
   * For zstd compression: the level, from 1 (fastest) to 22 (smallest); 0 for the default, 9.
   */
  uint32_t compression_level;
} cntk_reader_conversion;

/**
 * Receives one log line without its line break: UTF-8, NUL-terminated, `length` bytes without the
 * NUL, valid during the call only. Called on any thread, and on several at once. It must not
 * throw, and must not use the reader that logs the line: such calls return
 * CNTK_READER_STATUS_STATE.
 */
typedef void (*cntk_reader_log_callback)(void *userdata,
                                         cntk_reader_log_level level,
                                         const char *line,
                                         size_t length);

/**
 * Opens a file for reading. `path` is the whole path with its scheme, UTF-8, `length` bytes. The
 * handle written to `*file` is passed to the other callbacks. Returns a cntk_reader_file_status.
 */
typedef int32_t (*cntk_reader_open_file)(void *userdata,
                                         const char *path,
                                         size_t length,
                                         void **file,
                                         cntk_reader_failure *failure);

/**
 * Gets the size of a file in bytes; must set `size`. Returns a cntk_reader_file_status.
 */
typedef int32_t (*cntk_reader_get_file_size)(void *userdata,
                                             void *file,
                                             uint64_t *size,
                                             cntk_reader_failure *failure);

/**
 * Reads up to `capacity` bytes from `offset` on into `buffer`. Must set `count` to the number of
 * bytes, which is 0 only at the end of the file. Returns a cntk_reader_file_status.
 */
typedef int32_t (*cntk_reader_read_file)(void *userdata,
                                         void *file,
                                         uint64_t offset,
                                         void *buffer,
                                         size_t capacity,
                                         size_t *count,
                                         cntk_reader_failure *failure);

/**
 * Gets bytes that identify the content of a file, equal as long as the content is: an ETag, a
 * version, or a digest of either if it is longer than `capacity`. Writes up to `capacity` bytes to
 * `identity`, and must set `length`. Returns a cntk_reader_file_status.
 */
typedef int32_t (*cntk_reader_get_file_identity)(void *userdata,
                                                 void *file,
                                                 void *identity,
                                                 size_t capacity,
                                                 size_t *length,
                                                 cntk_reader_failure *failure);

/**
 * Closes a file. It is called after all other callbacks of the file.
 */
typedef void (*cntk_reader_close_file)(void *userdata, void *file);

/**
 * A user-defined file system, such as an object store, as a table of callbacks. Initialize with
 * zeros and set `struct_size`.
 *
 * Threads: the callbacks are called on any thread, including the library's own, and several at
 * once. They must not throw, and must not use readers of this library. They are not called during
 * process exit.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_file_system).
   */
  size_t struct_size;
  /**
   * The first argument of every callback.
   */
  void *userdata;
  /**
   * Opens a file. Must be set.
   */
  cntk_reader_open_file open_file;
  /**
   * Gets the size of a file. Must be set.
   */
  cntk_reader_get_file_size get_size;
  /**
   * Reads from a file. Must be set.
   */
  cntk_reader_read_file read_at;
  /**
   * Identifies the content of a file. NULL: changes are detected by the size alone.
   */
  cntk_reader_get_file_identity get_identity;
  /**
   * Closes a file. May be NULL.
   */
  cntk_reader_close_file close_file;
  /**
   * Called once, on any thread, after the file system is unmounted and all its files are closed.
   * May be NULL. Not called if mounting fails.
   */
  cntk_reader_finalizer finalizer;
} cntk_reader_file_system;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Returns the library's version as major * 1000000 + minor * 1000 + patch. Compare it with
 * CNTK_READER_VERSION.
 */
uint32_t cntk_reader_version_get(void);

/**
 * Returns the library's version as text ("0.1.0"), NUL-terminated, valid as long as the library is
 * loaded.
 */
const char *cntk_reader_version_get_text(void);

/**
 * Returns the ABI number of the library that the program runs with. Compare it with
 * CNTK_READER_ABI_VERSION. The loader already compares the numbers by the SONAME; this is for
 * programs that open the library by its path.
 */
uint32_t cntk_reader_version_get_abi(void);

/**
 * Gets the parts of an error. Returns CNTK_READER_STATUS_INVALID_ARGUMENT if an argument is NULL,
 * `error` is released or another handle, or `info->struct_size` is not set.
 */
cntk_reader_status cntk_reader_error_describe(const cntk_reader_error *error, cntk_reader_error_info *info);

/**
 * Returns the message and the location for display: UTF-8, NUL-terminated, valid as long as the
 * error. It is one line; for an error in the text of a configuration, two more lines show the
 * place. For NULL it is "". For a released error or another handle, it is a fixed text that says
 * so.
 */
const char *cntk_reader_error_get_text(const cntk_reader_error *error);

/**
 * Returns the object that a failing callback has attached with cntk_reader_failure_set_cause, or
 * NULL. It is valid at least as long as the error. For a released error or another handle it is
 * NULL.
 */
void *cntk_reader_error_get_cause(const cntk_reader_error *error);

/**
 * Frees an error. NULL is allowed. For a released error or another handle it does nothing but log
 * the mistake.
 */
void cntk_reader_error_free(cntk_reader_error *error);

/**
 * Creates a canceller, which the caller owns.
 */
cntk_reader_status cntk_reader_canceller_create(cntk_reader_canceller **canceller, cntk_reader_error **error);

/**
 * Cancels the running calls of all readers that were opened with this canceller, including the
 * opening. They soon return CNTK_READER_STATUS_CANCELLED without effect. The same call made again
 * continues where it stopped, and no minibatch is lost. `ends` is set to 1 if there was a call to
 * cancel, otherwise to 0: then nothing happens, and the next call is not affected. Returns at
 * once. May be called from any thread, but not from a signal handler.
 */
cntk_reader_status cntk_reader_canceller_cancel(const cntk_reader_canceller *canceller,
                                                uint32_t *ends,
                                                cntk_reader_error **error);

/**
 * Frees a canceller. NULL is allowed. For a released canceller or another handle it does nothing
 * but log the mistake. Readers that were opened with it stay usable, but their calls can no longer
 * be cancelled.
 */
void cntk_reader_canceller_free(cntk_reader_canceller *canceller);

/**
 * Creates empty options, which the caller owns. `front_end` is a cntk_reader_front_end, whose
 * names for options appear in messages. Programs in C pass CNTK_READER_FRONT_END_CONFIGURATION.
 */
cntk_reader_status cntk_reader_options_create(uint32_t front_end,
                                              cntk_reader_options **options,
                                              cntk_reader_error **error);

/**
 * Copies options. The caller owns the copy.
 */
cntk_reader_status cntk_reader_options_copy(const cntk_reader_options *options,
                                            cntk_reader_options **copy,
                                            cntk_reader_error **error);

/**
 * Frees options. NULL is allowed. For released options or another handle it does nothing but log
 * the mistake. Readers that were opened from them, and options that contain a copy of them, are
 * not affected.
 */
void cntk_reader_options_free(cntk_reader_options *options);

/**
 * Sets an option to true (1) or false (0). Like all setters it replaces the option's previous
 * value. `key` has `key_length` bytes, or CNTK_READER_NUL_TERMINATED. It is UTF-8 and
 * case-insensitive.
 */
cntk_reader_status cntk_reader_options_set_flag(cntk_reader_options *options,
                                                const char *key,
                                                size_t key_length,
                                                uint32_t value,
                                                cntk_reader_error **error);

/**
 * Sets an option to a signed integer.
 */
cntk_reader_status cntk_reader_options_set_integer(cntk_reader_options *options,
                                                   const char *key,
                                                   size_t key_length,
                                                   int64_t value,
                                                   cntk_reader_error **error);

/**
 * Sets an option to an unsigned integer: a size, a count, a seed.
 */
cntk_reader_status cntk_reader_options_set_size(cntk_reader_options *options,
                                                const char *key,
                                                size_t key_length,
                                                uint64_t value,
                                                cntk_reader_error **error);

/**
 * Sets an option to a floating-point number.
 */
cntk_reader_status cntk_reader_options_set_real(cntk_reader_options *options,
                                                const char *key,
                                                size_t key_length,
                                                double value,
                                                cntk_reader_error **error);

/**
 * Sets an option to a UTF-8 string: a keyword such as "double", or a name. `text` has
 * `text_length` bytes, or CNTK_READER_NUL_TERMINATED. Several numbers are written as one string,
 * such as "5:5".
 */
cntk_reader_status cntk_reader_options_set_text(cntk_reader_options *options,
                                                const char *key,
                                                size_t key_length,
                                                const char *text,
                                                size_t text_length,
                                                cntk_reader_error **error);

/**
 * Appends a string to an option that is a list.
 */
cntk_reader_status cntk_reader_options_add_text(cntk_reader_options *options,
                                                const char *key,
                                                size_t key_length,
                                                const char *text,
                                                size_t text_length,
                                                cntk_reader_error **error);

/**
 * Sets an option to the path of a file or folder, in the operating system's encoding. `path` has
 * `path_length` bytes, or CNTK_READER_NUL_TERMINATED.
 */
cntk_reader_status cntk_reader_options_set_path(cntk_reader_options *options,
                                                const char *key,
                                                size_t key_length,
                                                const char *path,
                                                size_t path_length,
                                                cntk_reader_error **error);

/**
 * Appends a path to an option that is a list of paths: script files, label files, folders.
 */
cntk_reader_status cntk_reader_options_add_path(cntk_reader_options *options,
                                                const char *key,
                                                size_t key_length,
                                                const char *path,
                                                size_t path_length,
                                                cntk_reader_error **error);

/**
 * Appends to the files (`file`) of a text or binary deserializer: a path, or a pattern of paths
 * such as "train-*.ctf". A path that exists is never a pattern. The data follow those of the
 * previous files.
 */
cntk_reader_status cntk_reader_options_add_file(cntk_reader_options *options,
                                                const char *key,
                                                size_t key_length,
                                                const char *path,
                                                size_t path_length,
                                                cntk_reader_error **error);

/**
 * Sets an option to a section, a copy of other options: `input`, or within `input` the options of
 * a stream by its name. An existing section is not replaced: stream names that differ only in case
 * would otherwise silently become one stream.
 */
cntk_reader_status cntk_reader_options_set_section(cntk_reader_options *options,
                                                   const char *key,
                                                   size_t key_length,
                                                   const cntk_reader_options *section,
                                                   cntk_reader_error **error);

/**
 * Appends a section, a copy of other options, to a list: `deserializers`, `transforms`.
 */
cntk_reader_status cntk_reader_options_add_section(cntk_reader_options *options,
                                                   const char *key,
                                                   size_t key_length,
                                                   const cntk_reader_options *section,
                                                   cntk_reader_error **error);

/**
 * Writes options in CNTK's configuration language: as the lines of a configuration, or as a
 * section if `in_brackets` is 1. The text is NUL-terminated if it fits into `capacity` bytes;
 * `length` is set to its full length. `text` may be NULL if `capacity` is 0. A name or string that
 * the language cannot express is an error; every path can be written.
 */
cntk_reader_status cntk_reader_options_write(const cntk_reader_options *options,
                                             uint32_t in_brackets,
                                             char *text,
                                             size_t capacity,
                                             size_t *length,
                                             cntk_reader_error **error);

/**
 * Opens a reader. Its files are opened and indexed, which may take a while for large ones; no data
 * are read yet. The caller owns the reader and frees it with cntk_reader_free. The library keeps
 * nothing of `source` except callbacks and their userdata.
 */
cntk_reader_status cntk_reader_open(const cntk_reader_source *source,
                                    cntk_reader **reader,
                                    cntk_reader_error **error);

/**
 * Writes the names of the readers in a configuration, one per line, as the member `reader` of a
 * source takes them. They are NUL-terminated if they fit into `capacity` bytes; `length` is set to
 * their full length. `text` may be NULL if `capacity` is 0.
 */
cntk_reader_status cntk_reader_source_list_readers(const cntk_reader_source *source,
                                                   char *text,
                                                   size_t capacity,
                                                   size_t *length,
                                                   cntk_reader_error **error);

/**
 * Frees a reader. NULL is allowed. For a released reader or another handle it does nothing but log
 * the mistake. Its minibatches, errors and buffers stay valid; the descriptions of its streams and
 * deserializers do not. Must not be called during another call on the reader. In the child of a
 * fork it returns at once without freeing memory.
 */
void cntk_reader_free(cntk_reader *reader);

/**
 * Describes a reader. `info->struct_size` must be set.
 */
cntk_reader_status cntk_reader_describe(const cntk_reader *reader,
                                        cntk_reader_info *info,
                                        cntk_reader_error **error);

/**
 * Describes stream `index`, counted from 0. `info->struct_size` must be set. May be called from
 * any thread.
 */
cntk_reader_status cntk_reader_stream_describe(const cntk_reader *reader,
                                               size_t index,
                                               cntk_reader_stream_info *info,
                                               cntk_reader_error **error);

/**
 * Describes deserializer `index` of a reader, counted from 0. `info->struct_size` must be set.
 */
cntk_reader_status cntk_reader_member_describe(const cntk_reader *reader,
                                               size_t index,
                                               cntk_reader_member_info *info,
                                               cntk_reader_error **error);

/**
 * Gets the progress of the epoch up to the most recently read minibatch, regardless of
 * prefetching. `progress->struct_size` must be set. An epoch must have been started, or a
 * checkpoint restored.
 */
cntk_reader_status cntk_reader_progress_get(const cntk_reader *reader,
                                            cntk_reader_progress *progress,
                                            cntk_reader_error **error);

/**
 * Gets the memory that a reader holds now. `memory->struct_size` must be set.
 */
cntk_reader_status cntk_reader_memory_get(const cntk_reader *reader,
                                          cntk_reader_memory *memory,
                                          cntk_reader_error **error);

/**
 * Suggests a value for the configuration's `chunkSizeInBytes` with which `workers` workers share
 * the data evenly. Randomized data are distributed by chunks, so a randomization window needs
 * several chunks per worker: the value is the window's bytes divided by 8 * workers, but at most
 * CNTK's default of 32 MiB. Without a file to measure, it is that default.
 */
cntk_reader_status cntk_reader_chunk_size_suggest(const cntk_reader *reader,
                                                  uint64_t workers,
                                                  uint64_t *bytes,
                                                  cntk_reader_error **error);

/**
 * Starts an epoch: moves to its first sample and sets sizes, workers and flags. Required before
 * the first minibatch is read, except after cntk_reader_checkpoint_restore, whose position it
 * would drop. May be called at any time, even in the middle of an epoch.
 */
cntk_reader_status cntk_reader_epoch_start(cntk_reader *reader,
                                           const cntk_reader_epoch *epoch,
                                           cntk_reader_error **error);

/**
 * Starts the epoch after the current one, and writes its number to `index`, counted from 0. For
 * training loops that read one epoch after another. `epoch` has its size, workers and flags; its
 * member `index` is ignored. Without a current epoch, or after one without an end, the number is
 * 0. After cntk_reader_checkpoint_restore the first call continues with the rest of the
 * checkpoint's epoch, unless its end was already reported. If the current epoch has a different
 * size, the next number is unknown, and the call fails: use cntk_reader_epoch_start.
 */
cntk_reader_status cntk_reader_epoch_start_next(cntk_reader *reader,
                                                const cntk_reader_epoch *epoch,
                                                uint64_t *index,
                                                cntk_reader_error **error);

/**
 * Gets the current epoch as it was started, or that of a restored checkpoint, and its state.
 * `epoch->struct_size` must be set. If there is none, `epoch` gets its initial values.
 */
cntk_reader_status cntk_reader_epoch_get(const cntk_reader *reader,
                                         cntk_reader_epoch *epoch,
                                         cntk_reader_epoch_state *state,
                                         cntk_reader_error **error);

/**
 * Changes sizes, workers and flags between two minibatches of an epoch. The position in the data
 * is kept. Sequences that a truncated reader has begun are not continued, as in CNTK 2.7.
 */
cntk_reader_status cntk_reader_configuration_set(cntk_reader *reader,
                                                 const cntk_reader_configuration *configuration,
                                                 cntk_reader_error **error);

/**
 * Gets the sizes, workers and flags in force, including those of a restored checkpoint.
 * `configuration->struct_size` must be set. An epoch must have been started, or a checkpoint
 * restored.
 */
cntk_reader_status cntk_reader_configuration_get(const cntk_reader *reader,
                                                 cntk_reader_configuration *configuration,
                                                 cntk_reader_error **error);

/**
 * Reads the next step of the epoch: a minibatch with data or, in lockstep, one that all workers
 * take part in. `outcome` says whether there is one; otherwise `minibatch` is set to NULL. The
 * caller owns one reference to the minibatch and releases it with cntk_reader_minibatch_release.
 *
 * The call waits for at most `milliseconds`, or without limit if that is CNTK_READER_NO_TIMEOUT.
 * Nothing is lost when it times out: a thread of the reader goes on reading, and a later call
 * returns the minibatch. The wait may be longer after a call that failed or was cancelled, because
 * its effects are undone first, and if the system cannot start another thread.
 *
 * After an error in the data, the next call continues with the data that follow. After
 * CNTK_READER_STATUS_IO (a file could not be read) the next call retries the same minibatch,
 * unless the cause is permanent, such as a missing file.
 */
cntk_reader_status cntk_reader_minibatch_next(cntk_reader *reader,
                                              uint64_t milliseconds,
                                              const cntk_reader_minibatch **minibatch,
                                              cntk_reader_outcome *outcome,
                                              cntk_reader_error **error);

/**
 * Waits until the next minibatch, or an error in its place, is available without waiting, but at
 * most `milliseconds`, as cntk_reader_minibatch_next does. `is_ready` is set to 1 if it is, else
 * to 0. cntk_reader_minibatch_read then returns at once; so does cntk_reader_minibatch_next,
 * except that it skips minibatches in which this worker has no share. Nothing is consumed, so a
 * program may be interrupted while it waits.
 */
cntk_reader_status cntk_reader_minibatch_wait(cntk_reader *reader,
                                              uint64_t milliseconds,
                                              uint32_t *is_ready,
                                              cntk_reader_error **error);

/**
 * Reads the next minibatch like CNTK's GetMinibatch. cntk_reader_minibatch_next is easier to use.
 * The caller owns one reference and releases it with cntk_reader_minibatch_release.
 *
 * Past the end of the epoch, every call returns a minibatch without streams whose `end_of_epoch`
 * is 1. A worker may also get one without streams earlier, when none of the data is its share;
 * `is_step` distinguishes these from training steps. Errors are reported as by
 * cntk_reader_minibatch_next.
 */
cntk_reader_status cntk_reader_minibatch_read(cntk_reader *reader,
                                              const cntk_reader_minibatch **minibatch,
                                              cntk_reader_error **error);

/**
 * Adds a reference. NULL is allowed. For a released minibatch or another handle it does nothing
 * but log the mistake. May be called from any thread.
 */
void cntk_reader_minibatch_retain(const cntk_reader_minibatch *minibatch);

/**
 * Releases a reference. Releasing the last one invalidates all pointers into the minibatch. NULL
 * is allowed. For a released minibatch or another handle it does nothing but log the mistake. May
 * be called from any thread.
 */
void cntk_reader_minibatch_release(const cntk_reader_minibatch *minibatch);

/**
 * Describes a minibatch. `info->struct_size` must be set. May be called from any thread.
 */
cntk_reader_status cntk_reader_minibatch_describe(const cntk_reader_minibatch *minibatch,
                                                  cntk_reader_minibatch_info *info,
                                                  cntk_reader_error **error);

/**
 * Writes the key of a sequence as text, as CNTK shows it: UTF-8, truncated to `capacity` bytes
 * including a NUL. `length` is set to its full length in bytes without the NUL. `text` may be NULL
 * if `capacity` is 0. `sequence` is the number that records have. May be called from any thread.
 */
cntk_reader_status cntk_reader_minibatch_get_key_text(const cntk_reader_minibatch *minibatch,
                                                      size_t sequence,
                                                      char *text,
                                                      size_t capacity,
                                                      size_t *length,
                                                      cntk_reader_error **error);

/**
 * Describes stream `index` of a minibatch, counted from 0: its layout and pointers to its data.
 * `stream->struct_size` must be set. May be called from any thread.
 */
cntk_reader_status cntk_reader_minibatch_stream_describe(const cntk_reader_minibatch *minibatch,
                                                         size_t index,
                                                         cntk_reader_minibatch_stream *stream,
                                                         cntk_reader_error **error);

/**
 * Writes the sequences of stream `index`, padded to `length` samples each.
 *
 * In terms of the members of cntk_reader_minibatch_stream, `values` receives sequences * length
 * samples of `sample_size` values each, of the stream's element type. `value_capacity` is its
 * capacity in values. `values` may be NULL if `value_capacity` is 0; no values are written then.
 * `length` must be at least `longest`. Samples past the end of a sequence are set to `fill`, which
 * must be representable in the element type. `mask` receives sequences * length bytes, 1 for each
 * sample of a sequence and 0 for padding; it may be NULL if `mask_capacity` is 0.
 *
 * Sequences appear in the order of the minibatch's keys, without gaps. A truncated sequence
 * contributes the part that lies in this minibatch. Samples of a sparse stream are written
 * densely; more than 2^31 values are an error. May be called from any thread.
 */
cntk_reader_status cntk_reader_minibatch_stream_pad(const cntk_reader_minibatch *minibatch,
                                                    size_t index,
                                                    size_t length,
                                                    double fill,
                                                    void *values,
                                                    size_t value_capacity,
                                                    uint8_t *mask,
                                                    size_t mask_capacity,
                                                    cntk_reader_error **error);

/**
 * Writes the samples of stream `index`, sequence by sequence without padding.
 *
 * In terms of the members of cntk_reader_minibatch_stream, `values` receives samples * sample_size
 * values of the stream's element type; `value_capacity` is its capacity. `offsets` receives
 * sequences + 1 numbers: the index of each sequence's first sample, then `samples`;
 * `offset_capacity` is its capacity. Either pointer may be NULL if its capacity is 0; that output
 * is skipped then. If `is_packed` is set for a dense stream, the minibatch already holds these
 * values at the start of its `values`.
 *
 * Order, truncated sequences and sparse streams are treated as in
 * cntk_reader_minibatch_stream_pad. May be called from any thread.
 */
cntk_reader_status cntk_reader_minibatch_stream_pack(const cntk_reader_minibatch *minibatch,
                                                     size_t index,
                                                     void *values,
                                                     size_t value_capacity,
                                                     int32_t *offsets,
                                                     size_t offset_capacity,
                                                     cntk_reader_error **error);

/**
 * Writes the class index of each one-hot sample of stream `index`, padded to `length` samples per
 * sequence.
 *
 * `indices` receives sequences * length indices, in the order of cntk_reader_minibatch_stream_pad,
 * with `fill` past the end of each sequence. `element` is the type of the indices,
 * `CNTK_READER_ELEMENT_INT32` or `CNTK_READER_ELEMENT_INT64`, and `fill` must be representable in
 * it. `index_capacity` is the capacity of `indices`, which may be NULL if that is 0. `mask` is as
 * for cntk_reader_minibatch_stream_pad. A sample that is not one-hot is an error.
 *
 * The stream may be sparse or dense. May be called from any thread.
 */
cntk_reader_status cntk_reader_minibatch_stream_pad_indices(const cntk_reader_minibatch *minibatch,
                                                            size_t index,
                                                            size_t length,
                                                            uint32_t element,
                                                            int64_t fill,
                                                            void *indices,
                                                            size_t index_capacity,
                                                            uint8_t *mask,
                                                            size_t mask_capacity,
                                                            cntk_reader_error **error);

/**
 * Writes the class index of each one-hot sample of stream `index`, sequence by sequence without
 * padding.
 *
 * `indices` receives `samples` indices in the order of cntk_reader_minibatch_stream_pack.
 * `element` is their type, as for cntk_reader_minibatch_stream_pad_indices. `index_capacity` is
 * the capacity of `indices`, which may be NULL if that is 0. `offsets` is as for
 * cntk_reader_minibatch_stream_pack. A sample that is not one-hot is an error.
 *
 * The stream may be sparse or dense. May be called from any thread.
 */
cntk_reader_status cntk_reader_minibatch_stream_pack_indices(const cntk_reader_minibatch *minibatch,
                                                             size_t index,
                                                             uint32_t element,
                                                             void *indices,
                                                             size_t index_capacity,
                                                             int32_t *offsets,
                                                             size_t offset_capacity,
                                                             cntk_reader_error **error);

/**
 * Writes the columns of sparse stream `index` in canonical form: ascending, unique indices in each
 * column. Values with the same index are added up.
 *
 * In terms of the members of cntk_reader_minibatch_stream, `values` (of the stream's element type)
 * and `indices` have room for `value_capacity` elements each, at least `value_count`. `offsets`
 * has room for `offset_capacity` numbers, at least columns + 1. `count` receives the number of
 * values and indices written. May be called from any thread.
 */
cntk_reader_status cntk_reader_minibatch_stream_canonical(const cntk_reader_minibatch *minibatch,
                                                          size_t index,
                                                          void *values,
                                                          int32_t *indices,
                                                          size_t value_capacity,
                                                          int32_t *offsets,
                                                          size_t offset_capacity,
                                                          size_t *count,
                                                          cntk_reader_error **error);

/**
 * Writes the entries of sparse stream `index` in the form that embedding bags take: sequence by
 * sequence in the order of cntk_reader_minibatch_stream_pack, without gaps, with the entries of a
 * sample in the data's order.
 *
 * In terms of the members of cntk_reader_minibatch_stream, `indices` (of type `element`, as for
 * cntk_reader_minibatch_stream_pad_indices) and `weights` (of the stream's element type) have room
 * for `entry_capacity` elements each, at least `value_count`. `offsets` has room for
 * `offset_capacity` numbers, at least samples + 1: the index of each sample's first entry, then
 * the total number of entries. cntk_reader_minibatch_stream_pack gives the offsets of the
 * sequences among the samples. `are_ones` is set to 1 if all weights are 1, otherwise to 0.
 *
 * A dense stream is an error; in truncated mode a stream is dense unless `expandSparse` is false.
 * May be called from any thread.
 */
cntk_reader_status cntk_reader_minibatch_stream_bags(const cntk_reader_minibatch *minibatch,
                                                     size_t index,
                                                     uint32_t element,
                                                     void *indices,
                                                     void *weights,
                                                     size_t entry_capacity,
                                                     int32_t *offsets,
                                                     size_t offset_capacity,
                                                     uint8_t *are_ones,
                                                     cntk_reader_error **error);

/**
 * Saves a checkpoint of the position after the most recently read minibatch. It continues exactly
 * in every mode. It is opaque, versioned and checksummed, and has a few hundred bytes in most
 * modes. The caller owns the buffer.
 */
cntk_reader_status cntk_reader_checkpoint_save(const cntk_reader *reader,
                                               cntk_reader_buffer **checkpoint,
                                               cntk_reader_error **error);

/**
 * Restores a checkpoint of `size` bytes: the next minibatch is the one that followed it. This also
 * starts the epoch in which it was saved, so that a new reader can continue at once, as the worker
 * that saved it. Calling cntk_reader_epoch_start afterwards would drop the position. A reader
 * whose number of workers and rank were set, by cntk_reader_epoch_start or
 * cntk_reader_configuration_set, keeps them. A checkpoint is refused if the data or the
 * configuration differ, or if these workers cannot continue it exactly; the error says what
 * differs, and the reader is unchanged.
 */
cntk_reader_status cntk_reader_checkpoint_restore(cntk_reader *reader,
                                                  const uint8_t *bytes,
                                                  size_t size,
                                                  cntk_reader_error **error);

/**
 * Restores a checkpoint like cntk_reader_checkpoint_restore, but allows values of the data to have
 * changed since it was saved. The sequences must have the same keys and lengths.
 */
cntk_reader_status cntk_reader_checkpoint_restore_over_changed_values(cntk_reader *reader,
                                                                      const uint8_t *bytes,
                                                                      size_t size,
                                                                      cntk_reader_error **error);

/**
 * Gets CNTK's checkpoint state after the most recently read minibatch. Writes the first `capacity`
 * entries, and their total number, which may exceed `capacity`, to `count`. `entries` may be NULL
 * if `capacity` is 0. There is one entry, "minibatchSourcePosition" (in samples), or five if
 * chunks list their sequences when they are loaded, as in some user-defined deserializers. The
 * state continues exactly in most modes; cntk_reader_checkpoint_save does so in all.
 */
cntk_reader_status cntk_reader_state_get(const cntk_reader *reader,
                                         cntk_reader_state_entry *entries,
                                         size_t capacity,
                                         size_t *count,
                                         cntk_reader_error **error);

/**
 * Restores CNTK's checkpoint state, which CNTK itself may have saved. Call it after
 * cntk_reader_epoch_start, which would drop the position of an earlier call, as in CNTK. Unknown
 * entries are ignored; a missing one is an error. The state does not record the number of workers:
 * with `localTimeline = true`, another number of workers loses and repeats sequences, as in CNTK
 * 2.7. cntk_reader_checkpoint_restore checks the number.
 */
cntk_reader_status cntk_reader_state_set(cntk_reader *reader,
                                         const cntk_reader_state_entry *entries,
                                         size_t count,
                                         cntk_reader_error **error);

/**
 * Gets the bytes of a buffer: a pointer that is valid as long as the buffer, and the number of
 * bytes.
 */
cntk_reader_status cntk_reader_buffer_get_bytes(const cntk_reader_buffer *buffer,
                                                const uint8_t **bytes,
                                                size_t *size,
                                                cntk_reader_error **error);

/**
 * Frees a buffer. NULL is allowed. For a released buffer or another handle it does nothing but log
 * the mistake.
 */
void cntk_reader_buffer_free(cntk_reader_buffer *buffer);

/**
 * Converts a file to another format. Returns when the output is complete. If the conversion fails
 * or is stopped, no output is left, not even a partial one. May be called from any thread.
 */
cntk_reader_status cntk_reader_conversion_run(const cntk_reader_conversion *conversion,
                                              cntk_reader_error **error);

/**
 * Sets the number of threads that load and parse data, for readers opened from now on, which share
 * one pool. 0 restores the default: the environment variable CNTK_READER_THREADS, or else the
 * number of CPUs available to the process. At most 1024 threads are started; larger numbers log a
 * warning. The number does not affect what a reader delivers. May be called from any thread.
 */
cntk_reader_status cntk_reader_threads_set(size_t threads, cntk_reader_error **error);

/**
 * Gets the number of loading threads that a reader opened now would use. May be called from any
 * thread.
 */
cntk_reader_status cntk_reader_threads_get(size_t *threads, cntk_reader_error **error);

/**
 * Shuts down all callbacks, for a host that ends before its process does, such as an interpreter.
 * No new callback begins, and the call waits up to ten seconds for running ones to return. Calls
 * that need a callback then fail with CNTK_READER_STATUS_STATE, and objects that callbacks would
 * have released are leaked.
 *
 * The library does this by itself when the process exits. It cannot be undone. May be called from
 * any thread.
 */
void cntk_reader_callbacks_end(void);

/**
 * Parks this thread until the process ends; never returns. For callbacks whose thread the host is
 * terminating: `pthread_exit` would unwind frames of this library, which is not supported. No call
 * of the library waits for a parked thread. Callbacks in C need not call this, because the library
 * does so itself; callbacks in C++ call it where they catch `abi::__forced_unwind`.
 */
void cntk_reader_thread_park(void);

/**
 * Sends all further log lines of the process to a callback; NULL restores standard error. Lines
 * beyond a reader's `traceLevel` are dropped in either case.
 *
 * `finalizer`, which may be NULL, is called once when the userdata is unused: after the callback
 * was replaced and its last call has returned. That may be after this function returns if other
 * threads are logging. If this function fails, the finalizer is not called. May be called from any
 * thread.
 */
cntk_reader_status cntk_reader_log_set_callback(void *userdata,
                                                cntk_reader_log_callback callback,
                                                cntk_reader_finalizer finalizer,
                                                cntk_reader_error **error);

/**
 * Sets the error message of a failing callback. The message (UTF-8; `length` bytes, or
 * CNTK_READER_NUL_TERMINATED) is copied into the error of the call that needed the callback, whose
 * kind is CNTK_READER_STATUS_USER. The callback then returns a nonzero number. A callback that has
 * set a message has failed even if it returns 0; it may therefore set a message first, and replace
 * it by one of 0 bytes once it has succeeded.
 */
void cntk_reader_failure_set_message(cntk_reader_failure *failure, const char *message, size_t length);

/**
 * Attaches an object, such as an exception, to the error (see cntk_reader_error_get_cause).
 * `finalizer`, which may be NULL, is called with it on any thread once it is unused.
 */
void cntk_reader_failure_set_cause(cntk_reader_failure *failure,
                                   void *cause,
                                   cntk_reader_finalizer finalizer);

/**
 * Mounts a file system: it opens all data files whose paths begin with the scheme and "://", from
 * now on and in the whole process. For example, the file system mounted for "s3" opens the path
 * `s3://bucket/train.ctf` in a configuration. It replaces an earlier one for the same scheme; open
 * files stay with the file system that opened them. The table is copied. If `system` is NULL, the
 * scheme is unmounted, and such paths are ordinary paths again.
 *
 * The scheme (`length` bytes, or CNTK_READER_NUL_TERMINATED) is a letter followed by letters,
 * digits, '+', '-' and '.'. May be called from any thread.
 */
cntk_reader_status cntk_reader_file_system_mount(const char *scheme,
                                                 size_t length,
                                                 const cntk_reader_file_system *system,
                                                 cntk_reader_error **error);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* CNTK_READER_H */
