/*
 * cntk_reader.h: reads CNTK's training data.
 *
 * This file is generated from the library's source (cargo xtask header). Do not edit it.
 *
 * A reader is opened from a configuration in CNTK's configuration language. It starts an epoch and delivers minibatches
 * with the values, the order, the layout and the checkpoint state of CNTK 2.7. This is a whole program:
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
 * The header for C++ over this one is cntk_reader.hpp.
 *
 * Installing
 * ----------
 * `cargo xtask build` makes a tree with include/, lib/, lib/cmake/ and lib/pkgconfig/ that may be copied anywhere.
 *
 * Linking
 * -------
 * CMake: find_package(cntk_reader CONFIG REQUIRED) and target_link_libraries(you PRIVATE cntk_reader::cntk_reader).
 * pkg-config: `pkg-config --cflags --libs cntk_reader` (add --static for what the static library needs).
 * By hand: -lcntk_reader; the static library also needs -lpthread -ldl -lm and, with GNU tools, -lgcc_s.
 * The library exports symbols that begin with cntk_reader_ and no others.
 *
 * Names
 * -----
 * Functions are called cntk_reader_<noun>_<verb>; for the reader itself there is no noun. Enumerators begin with the name
 * of their enum. The data of a minibatch's stream are columns of values. A column is a time step of a lane (CNTK's
 * parallel sequence), and holds a sample or a gap. Sequences consist of samples. A sweep is one pass over the data. A
 * chunk is what is loaded and randomized as a whole. A worker is one of several processes that share the data.
 *
 * Ownership
 * ---------
 * Handles are opaque. What a call hands out through a pointer to a handle belongs to the caller:
 *
 *     handle                    comes from                              is given up by
 *     cntk_reader               cntk_reader_open                        cntk_reader_free
 *     cntk_reader_error         any call that fails                     cntk_reader_error_free
 *     cntk_reader_minibatch     cntk_reader_minibatch_next, _read       cntk_reader_minibatch_release
 *                               and _retain
 *     cntk_reader_buffer        cntk_reader_checkpoint_save             cntk_reader_buffer_free
 *
 * Every other pointer that a call gives is borrowed from the handle that was asked, and is valid as long as that handle.
 * Handles may be given up in any order: minibatches, buffers and errors outlive their reader. The library copies what
 * callers pass. It keeps nothing after a call returns, except callbacks, their userdata, and the arrays of a user's
 * deserializer until their chunk is released. All functions that free or release take NULL.
 *
 * Errors
 * ------
 * Functions that can fail return a cntk_reader_status: CNTK_READER_STATUS_OK, which is 0, or what went wrong. Their
 * outputs come last and are written only on success. The very last parameter is a place for an error object. It may be
 * NULL, and is written only on failure. The object has the message, CNTK's class of exception and the place: file, line,
 * byte offset, stream, sequence key. NULL where something is needed is an error, not a crash; a pointer that is neither
 * NULL nor valid is undefined behaviour. A failure inside the library does not leave it: the call returns
 * CNTK_READER_STATUS_INTERNAL, and its reader refuses all further calls.
 *
 * Threads
 * -------
 * A reader is exclusive: any thread may use it, but only one at a time. A second one gets CNTK_READER_STATUS_STATE.
 * Several readers may be used at once. Minibatches, buffers, errors and the descriptions of streams do not change and
 * may be shared. Functions without a handle may be called from any thread. The library's own threads start with the
 * first reader, and run no code of the caller's except log callbacks and users' deserializers, whose documentation says
 * on how many threads. A conversion calls its progress callback on the thread that runs it.
 *
 * Exceptions
 * ----------
 * No C++ exception may leave a callback or a finalizer. The library is not written in C++ and cannot catch one: if it
 * comes through, the process ends. Callbacks in C++ catch everything, and report it as cntk_reader_failure_set_message
 * says; those of cntk_reader.hpp do.
 *
 * Callbacks return. One that ends its thread (pthread_exit) keeps the thread until the process ends, and no user's code
 * runs any more. Loading chunks of users then fails with CNTK_READER_STATUS_STATE. Calls that wait for such a thread for a
 * file system, a log line, or sequences that several threads fetch do not return. The library's own threads are not
 * cancelled by pthread_cancel.
 *
 * Fork
 * ----
 * A reader belongs to the process that opened it. In the child of a fork its calls return CNTK_READER_STATUS_STATE, and
 * cntk_reader_free returns at once and leaves the memory alone. The data of minibatches that were read before the fork
 * stay readable there, but not their textual keys. The child may open readers of its own.
 *
 * Strings
 * -------
 * Strings are UTF-8. Inputs have a length in bytes, or CNTK_READER_NUL_TERMINATED. Outputs are NUL-terminated.
 *
 * Versions
 * --------
 * There is one ABI number, CNTK_READER_ABI_VERSION. The library's SONAME has it: libcntk_reader.so.1. As long as it stays
 * the same, functions, enumerators and members at the end of structs are only added, so a program runs with any library
 * that is not older than its header. Structs that begin with struct_size may grow: set it to sizeof, as the _INIT macros
 * do, and programs and libraries of different versions work together.
 *
 * The version itself, CNTK_READER_VERSION, is semantic. Before 1.0, programs are to be compiled anew for a new minor
 * version: CMake's find_package and pkg-config's users ask for one minor version. From 1.0 on the major version decides.
 */


#ifndef CNTK_READER_H
#define CNTK_READER_H

#include <stddef.h>
#include <stdint.h>

/** The version that this header belongs to. */
#define CNTK_READER_VERSION_MAJOR 0
#define CNTK_READER_VERSION_MINOR 1
#define CNTK_READER_VERSION_PATCH 0

/** The version as one number, as cntk_reader_version_get returns it. */
#define CNTK_READER_VERSION \
  (CNTK_READER_VERSION_MAJOR * 1000000 + CNTK_READER_VERSION_MINOR * 1000 + CNTK_READER_VERSION_PATCH)

/** The ABI that this header describes: see cntk_reader_version_get_abi. */
#define CNTK_READER_ABI_VERSION 1

/** In place of a length: the string ends at its NUL. */
#define CNTK_READER_NUL_TERMINATED SIZE_MAX

/** The sequence number of a record that is a gap. */
#define CNTK_READER_GAP UINT64_MAX

/** In a shape: the dimensions are known once there are data. */
#define CNTK_READER_UNKNOWN_DIMENSION (SIZE_MAX - 1)

/** A number that is not known: a byte offset, or how much data there is. */
#define CNTK_READER_UNKNOWN UINT64_MAX

/** Epoch size in samples: no limit (CNTK: infinitely repeat). */
#define CNTK_READER_UNLIMITED_SAMPLES UINT64_C(0x7fffffffffffffff)

/** Epoch size in samples: one sweep, whatever its size (CNTK: full data sweep). */
#define CNTK_READER_ONE_SWEEP UINT64_C(0x3fffffffffffffff)

/** Epoch size in sweeps: no limit; the size in samples counts. */
#define CNTK_READER_UNLIMITED_SWEEPS UINT64_MAX

/** The rank of a worker that is still to be set; only a single worker needs none. */
#define CNTK_READER_NO_RANK UINT64_MAX

/** Milliseconds of a wait without a limit. */
#define CNTK_READER_NO_TIMEOUT UINT64_MAX

/** Initial value of a cntk_reader_source. One of text, file and options has to be set. */
#define CNTK_READER_SOURCE_INIT \
  {sizeof(cntk_reader_source), NULL, CNTK_READER_NUL_TERMINATED, NULL, CNTK_READER_NUL_TERMINATED, \
   NULL, NULL, 0, NULL, 0, NULL, NULL, CNTK_READER_NUL_TERMINATED}

/** Initial value of a cntk_reader_epoch. The minibatch size has to be set. */
#define CNTK_READER_EPOCH_INIT \
  {sizeof(cntk_reader_epoch), 1, CNTK_READER_NO_RANK, 0, 0, 0, 1, CNTK_READER_UNLIMITED_SAMPLES, CNTK_READER_UNLIMITED_SWEEPS, 0}

/** Initial value of a cntk_reader_configuration. The minibatch size has to be set. */
#define CNTK_READER_CONFIGURATION_INIT {sizeof(cntk_reader_configuration), 1, CNTK_READER_NO_RANK, 0, 0, 0, 1}

/** Initial value of a cntk_reader_conversion: to binary, chunks of 32 MiB, single precision. Paths have to be set. */
#define CNTK_READER_CONVERSION_INIT \
  {sizeof(cntk_reader_conversion), 0, 0, NULL, NULL, NULL, 33554432, 0, 0, NULL, NULL, NULL, NULL, 0, 0}


/**
 * How a call ended. Numbers are never reused, new ones may be added: treat an unknown one as a failure.
 */
typedef enum {
  /**
   * The call succeeded; its outputs are written.
   */
  CNTK_READER_STATUS_OK = 0,
  /**
   * The configuration's text, or one of its values, is wrong.
   */
  CNTK_READER_STATUS_CONFIG = 1,
  /**
   * An argument of the call is wrong: NULL, an index out of range, a minibatch size of 0, a rank beyond the workers.
   */
  CNTK_READER_STATUS_INVALID_ARGUMENT = 2,
  /**
   * The operating system refused: a file is missing, a read failed.
   */
  CNTK_READER_STATUS_IO = 3,
  /**
   * The content of a data file is wrong.
   */
  CNTK_READER_STATUS_DATA = 4,
  /**
   * A checkpoint is damaged, or does not fit the data or the configuration.
   */
  CNTK_READER_STATUS_CHECKPOINT = 5,
  /**
   * The handle's state does not allow the call: no epoch was started, another thread is using the reader, the
   * process is the child of a fork, an earlier call ended in CNTK_READER_STATUS_INTERNAL.
   */
  CNTK_READER_STATUS_STATE = 6,
  /**
   * Code that the user supplied has failed.
   */
  CNTK_READER_STATUS_USER = 7,
  /**
   * A mistake of this library. The reader that reported it refuses all further calls except its destruction.
   */
  CNTK_READER_STATUS_INTERNAL = 8,
  /**
   * The call was ended by cntk_reader_canceller_cancel. It has changed nothing: made again, it continues where it stood.
   */
  CNTK_READER_STATUS_CANCELLED = 9,
  /**
   * There is not enough memory. The reader can be used further: the call that is made next does what the failed one
   * would have.
   */
  CNTK_READER_STATUS_MEMORY = 10,
} cntk_reader_status;

/**
 * Which C++ exception CNTK throws where this error is reported.
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
   * Every value of every sample.
   */
  CNTK_READER_STORAGE_DENSE = 0,
  /**
   * Compressed sparse columns, one column a sample.
   */
  CNTK_READER_STORAGE_SPARSE_CSC = 1,
} cntk_reader_storage;

/**
 * Type of one value. The numbers are CNTK's where it has one.
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
   * IEEE float of 2 bytes.
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
   * The upper 2 bytes of a `float`.
   */
  CNTK_READER_ELEMENT_BFLOAT16 = 19,
  /**
   * A byte that is 0 or 1.
   */
  CNTK_READER_ELEMENT_BOOL = 20,
} cntk_reader_element;

/**
 * How far an epoch has come.
 */
typedef enum {
  /**
   * No epoch was started yet, and no checkpoint restored.
   */
  CNTK_READER_EPOCH_NONE = 0,
  /**
   * The epoch was started, and its end was not reported yet.
   */
  CNTK_READER_EPOCH_STARTED = 1,
  /**
   * A checkpoint from its middle was restored: cntk_reader_epoch_start_next goes on with the
   * rest of it.
   */
  CNTK_READER_EPOCH_RESUMED = 2,
  /**
   * The end of the epoch was reported: cntk_reader_minibatch_next gave
   * CNTK_READER_OUTCOME_END_OF_EPOCH, or cntk_reader_minibatch_read a minibatch past the end.
   */
  CNTK_READER_EPOCH_OVER = 3,
} cntk_reader_epoch_state;

/**
 * The outcome of cntk_reader_minibatch_next.
 */
typedef enum {
  /**
   * There is a minibatch.
   */
  CNTK_READER_OUTCOME_MINIBATCH = 0,
  /**
   * The epoch is over: there is no minibatch, and none in later calls.
   */
  CNTK_READER_OUTCOME_END_OF_EPOCH = 1,
  /**
   * The time is over, and there is no minibatch yet. A later call gives it.
   */
  CNTK_READER_OUTCOME_PENDING = 2,
} cntk_reader_outcome;

/**
 * How much a log line matters.
 */
typedef enum {
  /**
   * Always reported.
   */
  CNTK_READER_LOG_LEVEL_ERROR = 0,
  /**
   * Reported at `traceLevel` 1, the default, and above; at every level if it reports sequences that are dropped.
   */
  CNTK_READER_LOG_LEVEL_WARNING = 1,
  /**
   * Reported at `traceLevel` 2 and above.
   */
  CNTK_READER_LOG_LEVEL_INFO = 2,
} cntk_reader_log_level;

/**
 * The interface in which a reader's options were written: messages call options what it calls them.
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
   * The C++ header's ReaderOptions and deserializers.
   */
  CNTK_READER_FRONT_END_CPP = 2,
  /**
   * The Python package's classes.
   */
  CNTK_READER_FRONT_END_PYTHON = 3,
} cntk_reader_front_end;

/**
 * Between which formats a conversion goes.
 */
typedef enum {
  /**
   * From a text file (CTF) to a binary one (CBF), by the rules of CNTK's script ctf2bin.py: ids are compared as text, a
   * stream's name without values adds no sample, and sequences are numbered in the order of the file.
   */
  CNTK_READER_DIRECTION_TEXT_TO_BINARY = 0,
  /**
   * From a binary file to a text one that reads back to the same bits in the file's precision. Sequences get their
   * ordinals as ids. A value that no text stands for (a NaN other than the usual two) is an error.
   */
  CNTK_READER_DIRECTION_BINARY_TO_TEXT = 1,
  /**
   * From HTK features, named by the script `input`, to a Kaldi archive of float matrices. `script` is optional.
   */
  CNTK_READER_DIRECTION_HTK_TO_KALDI = 2,
  /**
   * From features of a Kaldi script (`.scp`) or archive to one big-endian HTK archive of 10 ms a frame. `script` is
   * required; its keys get the extension `.mfc`, which is no part of the key when the script is read.
   */
  CNTK_READER_DIRECTION_KALDI_TO_HTK = 3,
  /**
   * From HTK features to a NumPy archive (`.npz`): for each utterance, by its key, a float32 array of frames times
   * values.
   */
  CNTK_READER_DIRECTION_HTK_TO_NUMPY = 4,
  /**
   * From features of a Kaldi script or archive to a NumPy archive, as from HTK features.
   */
  CNTK_READER_DIRECTION_KALDI_TO_NUMPY = 5,
  /**
   * From a label file (MLF), as text or binary, to a Kaldi archive of int32 vectors. `script` is optional, and
   * `states` is needed where lines have no class numbers.
   */
  CNTK_READER_DIRECTION_MLF_TO_KALDI = 6,
  /**
   * From int32 vectors of a Kaldi script or archive to a label file as text, of 10 ms a frame.
   */
  CNTK_READER_DIRECTION_KALDI_TO_MLF = 7,
  /**
   * From a label file to a text file (CTF) with one sparse stream, whose name is `streams`: a line for each frame.
   */
  CNTK_READER_DIRECTION_MLF_TO_TEXT = 8,
  /**
   * From the one-hot stream of a text file, whose name is `streams`, to a label file. Ids become keys.
   */
  CNTK_READER_DIRECTION_TEXT_TO_MLF = 9,
  /**
   * From a label file to a NumPy archive: for each utterance an int32 array with a class number for each frame.
   */
  CNTK_READER_DIRECTION_MLF_TO_NUMPY = 10,
  /**
   * From any file to one that zstd has compressed, in frames that are unpacked one by one: a reader reads it like the
   * plain file if its name ends in `.zst`. Progress counts frames in place of sequences.
   */
  CNTK_READER_DIRECTION_TO_ZSTD = 11,
} cntk_reader_direction;

/**
 * How the samples of a stream make the sequences of a chunk.
 */
typedef enum {
  /**
   * There is one array, and each of its samples is a sequence.
   */
  CNTK_READER_GROUPING_SAMPLES = 0,
  /**
   * There is one array with the samples of all sequences, one sequence after the other, and `lengths` has the number of
   * samples of each.
   */
  CNTK_READER_GROUPING_SEQUENCES = 1,
  /**
   * There are several arrays, each of them a sequence.
   */
  CNTK_READER_GROUPING_ARRAYS = 2,
} cntk_reader_grouping;

/**
 * What callbacks of a file system return.
 */
typedef enum {
  /**
   * It has succeeded.
   */
  CNTK_READER_FILE_STATUS_OK = 0,
  /**
   * It has failed for good.
   */
  CNTK_READER_FILE_STATUS_FAILED = 1,
  /**
   * It has failed and may succeed a little later. It is called again, at most four times within four seconds.
   */
  CNTK_READER_FILE_STATUS_AGAIN = 2,
} cntk_reader_file_status;

/**
 * A reader of minibatches. Open it with cntk_reader_open, free it with cntk_reader_free.
 *
 * Threads: exclusive. It may move from thread to thread, but only one may be inside a call at a time: a second one
 * gets CNTK_READER_STATUS_STATE. The descriptions of its streams may be read at any time.
 * Fork: belongs to the process that opened it; in the child every call gives CNTK_READER_STATUS_STATE.
 */
typedef struct cntk_reader cntk_reader;

/**
 * Bytes that the caller owns; free them with cntk_reader_buffer_free.
 *
 * Threads: immutable, may be shared. Independent of the reader that made it.
 */
typedef struct cntk_reader_buffer cntk_reader_buffer;

/**
 * Ends calls that take long, from another thread: opening, the start of an epoch, setting a configuration, reading, and
 * restoring. Make it with cntk_reader_canceller_create, set it as `canceller` of a cntk_reader_source, and free it with
 * cntk_reader_canceller_free. It may serve several readers, whose calls it ends together.
 *
 * Code of users (deserializers, transforms, mounted file systems) is not interrupted. Where it runs on threads of its own, the
 * call stops waiting for it; where it runs in the call, the call ends after it.
 *
 * Threads: may be shared.
 */
typedef struct cntk_reader_canceller cntk_reader_canceller;

/**
 * What went wrong and where. A call that fails hands one out; free it with cntk_reader_error_free.
 *
 * Threads: immutable, may be shared.
 */
typedef struct cntk_reader_error cntk_reader_error;

/**
 * Where a callback that fails says why: see cntk_reader_failure_set_message.
 *
 * Threads: exclusive, during the callback only.
 */
typedef struct cntk_reader_failure cntk_reader_failure;

/**
 * One minibatch. It owns its data and counts its references: cntk_reader_minibatch_next and
 * cntk_reader_minibatch_read give one, cntk_reader_minibatch_retain adds one,
 * cntk_reader_minibatch_release takes one away. With the last one its memory
 * becomes available for later minibatches. It may outlive its reader.
 *
 * Threads: immutable, may be shared; references are counted atomically.
 * Fork: data may be read in the child, textual keys may not; releasing it there does nothing.
 */
typedef struct cntk_reader_minibatch cntk_reader_minibatch;

/**
 * Options with values: those of a reader, with the options of its deserializers inside, those of
 * their streams inside these, and so on. Their names are the keys of CNTK's configuration
 * language, but values need no quotes, and nothing in one is a comment, a variable or a default:
 * paths and names of streams may have any characters. Set as `options` of a cntk_reader_source.
 *
 * A reader of the stream `features` of a text file has four of them: those of the stream, dim =
 * 784 and format = "dense"; `input`, with the stream as its section `features`; those of the
 * deserializer, type = "CNTKTextFormatDeserializer", module = "CNTKTextFormatReader", file and
 * input; and those of the reader, with the deserializer in `deserializers`.
 *
 * Threads: one at a time while it is changed.
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
   * What went wrong: the status that the failing call returned.
   */
  cntk_reader_status kind;
  /**
   * CNTK's type of exception.
   */
  cntk_reader_exception exception;
  /**
   * The message alone: CNTK's words where CNTK has any. Its wording may change between versions.
   */
  const char *message;
  /**
   * What the message does not say: what was found, what was expected, what to do about it. "" if there is nothing to
   * add.
   */
  const char *detail;
  /**
   * Path of the data file as the configuration wrote it, or of the configuration file; or NULL.
   */
  const char *file;
  /**
   * Byte offset from the start of the file, or CNTK_READER_UNKNOWN.
   */
  uint64_t offset;
  /**
   * Line in the file, or in the text of a configuration that is no file, from 1; 0 if it is not known.
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
   * Column in a line of a configuration: the number of the character, from 1. 0 for other errors.
   */
  uint64_t column;
} cntk_reader_error_info;

/**
 * A stream of a user's deserializer. Its number is its place in the list.
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
   * Shape of one sample, first dimension varying fastest; may be NULL if `shape_rank` is 0, which stands for scalars.
   */
  const size_t *shape;
  /**
   * Dimensions in `shape`.
   */
  size_t shape_rank;
  /**
   * A cntk_reader_storage.
   */
  uint32_t storage;
  /**
   * A cntk_reader_element.
   */
  uint32_t element;
  /**
   * 1 if minibatch sizes are measured in this stream's samples, else 0.
   */
  uint32_t defines_mb_size;
  /**
   * 0.
   */
  uint32_t reserved;
} cntk_reader_user_stream;

/**
 * Size of a chunk of a user's deserializer. Zeros: not known.
 */
typedef struct {
  /**
   * Samples of all its sequences.
   */
  uint64_t samples;
  /**
   * Number of its sequences.
   */
  uint64_t sequences;
} cntk_reader_chunk_size;

/**
 * The sequences of a chunk that is not loaded yet. The lists have to stay valid until the next callback, or until the
 * reader is open.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_user_sequences), set by the library; all else but `count` is zero when the callback gets it.
   */
  size_t struct_size;
  /**
   * Number of sequences; may be 0. Has to be set.
   */
  size_t count;
  /**
   * The length of each: samples in the stream that defines the minibatch size, else in the longest stream. NULL: all
   * are one sample long.
   */
  const uint32_t *lengths;
  /**
   * The key of each, or NULL. Where the reader's keys are texts, a number stands for its decimal text; in a table that a
   * factory made it is a number of the request's cntk_reader_keys.
   */
  const uint64_t *keys;
  /**
   * The key of each as UTF-8 that ends with a NUL, or has the length in `key_text_lengths`; or NULL. Without `keys` and
   * `key_texts` a key is the running number in the whole data.
   */
  const char *const *key_texts;
  /**
   * Which sample of its key's sequence each is, where the samples of a sequence stand as sequences of their own. NULL: 0
   * for all.
   */
  const uint32_t *sample_indices;
  /**
   * Bytes of each key text, which may have NULs then, or CNTK_READER_NUL_TERMINATED. NULL: all end with a NUL.
   */
  const size_t *key_text_lengths;
} cntk_reader_user_sequences;

/**
 * Lists the sequences of a chunk, which need not be loaded. Returns 0, or another number if it fails.
 */
typedef int32_t (*cntk_reader_list_sequences)(void *userdata,
                                              uint32_t chunk,
                                              cntk_reader_user_sequences *sequences,
                                              cntk_reader_failure *failure);

/**
 * Where a sequence is, how long, and what its key is.
 */
typedef struct {
  /**
   * Its chunk.
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
   * Which sample of its key's sequence it is, if each sample of a sequence is a sequence of its
   * own (frames); else 0.
   */
  uint32_t sample;
  /**
   * Its key as a number.
   */
  uint64_t key;
} cntk_reader_sequence_info;

/**
 * Looks for the sequence that belongs to `of`, one of the reader's first deserializer: if there is one, writes its chunk,
 * index and length to `sequence`, and 1 to `found`. Returns 0, or another number if it fails.
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
   * The memory that the values are in. Sparse: the values of all entries.
   */
  const void *values;
  /**
   * Its size in bytes. Nothing outside of it is read.
   */
  size_t values_size;
  /**
   * Dense: bytes from its start to the array's first value.
   */
  size_t byte_offset;
  /**
   * Number of samples.
   */
  size_t samples;
  /**
   * Dense: the shape of a sample, compared with the stream's; NULL: not compared.
   */
  const size_t *shape;
  /**
   * Dimensions in `shape`.
   */
  size_t shape_rank;
  /**
   * Dense: bytes from one index to the next, for each dimension of a sample and then for the samples; may be
   * negative or 0. NULL: without gaps, the first dimension varying fastest.
   */
  const ptrdiff_t *strides;
  /**
   * Numbers in `strides`: `shape_rank` + 1.
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
   * Sparse: `samples` + 1 ascending entry numbers; sample s owns the entries from `offsets[s]` to before
   * `offsets[s + 1]`.
   */
  const void *offsets;
  /**
   * Sparse: bytes of an index, 4 or 8. Indices are signed.
   */
  uint32_t index_size;
  /**
   * Sparse: bytes of an offset, 4 or 8. Offsets are signed.
   */
  uint32_t offset_size;
  /**
   * A cntk_reader_element: the type of the values.
   */
  uint32_t element;
  /**
   * 0.
   */
  uint32_t reserved;
} cntk_reader_user_array;

/**
 * One stream's data in a chunk.
 */
typedef struct {
  /**
   * A cntk_reader_grouping.
   */
  uint32_t grouping;
  /**
   * 0.
   */
  uint32_t reserved;
  /**
   * The arrays.
   */
  const cntk_reader_user_array *arrays;
  /**
   * Their number: 1, except for CNTK_READER_GROUPING_ARRAYS.
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
 * A chunk that was loaded. What it points to stays valid, and values and indices unchanged, until the chunk is released.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_user_chunk), set by the library; all else but `sequence_count` is zero when the callback gets it.
   */
  size_t struct_size;
  /**
   * The chunk for later callbacks.
   */
  void *handle;
  /**
   * The arrays of all streams, by number; each with the same number of sequences. They are read where they lie. NULL if
   * fetch_sequence is set.
   */
  const cntk_reader_user_stream_data *streams;
  /**
   * Number of streams in `streams`.
   */
  size_t stream_count;
  /**
   * Number of sequences; CNTK_READER_UNKNOWN when the callback gets it. Needed where sequences are fetched and
   * list_sequences does not count; else it may stay as it is, and is compared with that of the arrays if it does not.
   */
  uint64_t sequence_count;
  /**
   * The length of each sequence in samples, where sequences are fetched and list_sequences does not count. NULL: all are
   * one sample long. Arrays have lengths of their own.
   */
  const uint32_t *lengths;
  /**
   * The key of each sequence, where list_sequences does not count; needs `sequence_count`. NULL: chunk * 2^32 + index.
   */
  const uint64_t *keys;
} cntk_reader_user_chunk;

/**
 * Loads a chunk. Returns 0, or another number if it fails.
 */
typedef int32_t (*cntk_reader_load_chunk)(void *userdata,
                                          uint32_t chunk,
                                          cntk_reader_user_chunk *loaded,
                                          cntk_reader_failure *failure);

/**
 * Releases a chunk or a sequence: called once with the handle of each one, whatever becomes of it.
 */
typedef void (*cntk_reader_release_handle)(void *userdata, void *handle);

/**
 * A sequence that was fetched.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_user_sequence), set by the library; all else is zero when the callback gets it.
   */
  size_t struct_size;
  /**
   * The sequence for later callbacks.
   */
  void *handle;
  /**
   * 1 if it cannot be used: it is left out of all streams, and counted against the reader's `maxErrors`.
   */
  uint32_t is_invalid;
  /**
   * 0.
   */
  uint32_t reserved;
} cntk_reader_user_sequence;

/**
 * Fetches a sequence of a loaded chunk; `index` is its place among the chunk's sequences. Returns 0, or another number if
 * it fails.
 */
typedef int32_t (*cntk_reader_fetch_sequence)(void *userdata,
                                              void *chunk,
                                              uint32_t index,
                                              cntk_reader_user_sequence *sequence,
                                              cntk_reader_failure *failure);

/**
 * A sequence's data in one stream. The element type is the stream's.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_user_sequence_data), set by the library; all else but `key` is zero when the callback gets it.
   */
  size_t struct_size;
  /**
   * Number of samples.
   */
  size_t samples;
  /**
   * Dense: the values of all samples, one sample after the other. Sparse: the stored values, sample after sample.
   */
  const void *values;
  /**
   * Number of values. Must be `samples` times the size of a sample if the stream is dense.
   */
  size_t value_count;
  /**
   * Sparse: the index of each value within its sample.
   */
  const int32_t *indices;
  /**
   * Sparse: the number of values that each sample has.
   */
  const int32_t *sample_value_counts;
  /**
   * Shape of a sample, if the stream's description leaves it open.
   */
  const size_t *shape;
  /**
   * Dimensions in `shape`.
   */
  size_t shape_rank;
  /**
   * The key that minibatches report; CNTK_READER_UNKNOWN when the callback gets it, which stands for the listed key.
   * Minibatches take it from the first stream, truncated ones from the last.
   */
  uint64_t key;
} cntk_reader_user_sequence_data;

/**
 * Makes the data of a fetched sequence ready and describes them: `streams` has one struct for each stream. `position` is
 * that of the sequence in its minibatch; invalid sequences have none and are not prepared. All pointers that are written
 * stay valid until the sequence is released. Returns 0, or another number if it fails.
 */
typedef int32_t (*cntk_reader_prepare_sequence)(void *userdata,
                                                void *sequence,
                                                uint32_t position,
                                                cntk_reader_user_sequence_data *streams,
                                                cntk_reader_failure *failure);

/**
 * Called once with the userdata that it was registered with, when the library will not use that userdata again.
 */
typedef void (*cntk_reader_finalizer)(void *userdata);

/**
 * A format of the user's own. Initialize with zeros and set `struct_size`, the streams, `chunk_count` and load_chunk. The
 * other callbacks decide what the reader can do with it:
 *
 * - list_sequences: sequences are known beforehand, which gives the full randomizer, one timeline for all workers and
 *   CNTK's state key "minibatchSourcePosition". Without, chunks list their sequences when they are loaded: every worker
 *   has a timeline of its own, windows do not overlap, and the state has other keys, all as with CNTK's user-defined
 *   deserializers. `composable = false` in the configuration has the same effect.
 * - find_sequence: where the deserializer is not the reader's first, it finds its sequences by those of the first one.
 *   Without, they are found by key, among those that list_sequences lists.
 * - fetch_sequence with prepare_sequence: a loaded chunk gives one sequence at a time, when a minibatch needs it, and no
 *   minibatch is assembled ahead. Without, load_chunk gives arrays.
 *
 * Threads: list_sequences and find_sequence are called by the thread that opens the reader, before that call returns.
 * load_chunk and, for chunks of arrays, release_chunk are called by one thread of the library's, one at a time; with
 * `thread_safe` by several. Sequences are fetched and prepared by the thread that reads, or by several at once if the
 * configuration says `multiThreadedDeserialization`; they, and their chunk after all of them, are released by any thread.
 * Callbacks must not throw, but they may use other readers.
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
   * The name that the configuration has for it, UTF-8: the `type` of an element of `deserializers`. May be NULL if
   * there is only one. Not looked at in a table that a factory makes.
   */
  const char *name;
  /**
   * Bytes of the name, or CNTK_READER_NUL_TERMINATED.
   */
  size_t name_length;
  /**
   * The streams, at least one. A shape of one dimension CNTK_READER_UNKNOWN_DIMENSION comes with the first sequence that is
   * fetched, and is that of all others. Copied when the reader is opened.
   */
  const cntk_reader_user_stream *streams;
  /**
   * Their number.
   */
  size_t stream_count;
  /**
   * Sizes of the chunks, for the check that what find_sequence gives exists; NULL if they are not known. Copied.
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
   * Lists the sequences of a chunk before it is loaded; may be NULL.
   */
  cntk_reader_list_sequences list_sequences;
  /**
   * Finds sequences by those of the reader's first deserializer; may be NULL.
   */
  cntk_reader_find_sequence find_sequence;
  /**
   * Loads a chunk. Must be set.
   */
  cntk_reader_load_chunk load_chunk;
  /**
   * Releases a chunk; may be NULL.
   */
  cntk_reader_release_handle release_chunk;
  /**
   * Fetches a sequence; may be NULL. Needs prepare_sequence.
   */
  cntk_reader_fetch_sequence fetch_sequence;
  /**
   * Makes the data of a fetched sequence ready. Needs fetch_sequence.
   */
  cntk_reader_prepare_sequence prepare_sequence;
  /**
   * Releases a sequence; may be NULL. Needs fetch_sequence.
   */
  cntk_reader_release_handle release_sequence;
  /**
   * Called once when all chunks and sequences were released, at the latest when the reader is freed; may be NULL. If
   * opening the reader fails, it is called for tables that a factory has made, and not for others.
   */
  cntk_reader_finalizer finalizer;
} cntk_reader_user_deserializer;

/**
 * What an image is, without its values.
 */
typedef struct {
  /**
   * Columns.
   */
  uint32_t width;
  /**
   * Rows.
   */
  uint32_t height;
  /**
   * Values of a pixel: 1 (gray), 3 (blue, green, red), or what users' code makes.
   */
  uint32_t channels;
  /**
   * Type of the values, a cntk_reader_element: `UINT8`, `FLOAT` or `DOUBLE`.
   */
  uint32_t element;
  /**
   * 0: row after row, in a row pixel after pixel. 1: channel after channel, each row after row (`Transpose`).
   */
  uint32_t is_planar;
  /**
   * 0.
   */
  uint32_t reserved;
} cntk_reader_image_info;

/**
 * Says what the transform makes of such an image: `result` has what the image is, for the callback to change. It must depend
 * on `image` alone; it is called several times for each image. Returns 0, or another number if it fails.
 */
typedef int32_t (*cntk_reader_describe_image)(void *userdata,
                                              const cntk_reader_image_info *image,
                                              cntk_reader_image_info *result,
                                              cntk_reader_failure *failure);

/**
 * Transforms an image. `values` are the image's values, `width * height * channels` of its type; `result` is what
 * describe_image has said, and `result_values` the place for all of its values, which holds values of other images. The two
 * places do not overlap, are aligned for their types, and must not be used once the callback has returned. `random` was drawn
 * for this image: what is random has to depend on nothing else. Returns 0, or another number if it fails.
 */
typedef int32_t (*cntk_reader_transform_image)(void *userdata,
                                               const cntk_reader_image_info *image,
                                               const void *values,
                                               const cntk_reader_image_info *result,
                                               void *result_values,
                                               uint64_t random,
                                               cntk_reader_failure *failure);

/**
 * The part of the decoded image that the crops and scales before a transform have left.
 */
typedef struct {
  /**
   * First column of the part that is shown, in columns of the decoded image. Negative where `Scale` has padded the image.
   */
  double left;
  /**
   * First row of the part.
   */
  double top;
  /**
   * Columns of the part, in columns of the decoded image.
   */
  double width;
  /**
   * Rows of the part.
   */
  double height;
  /**
   * Columns of the decoded image.
   */
  uint32_t source_width;
  /**
   * Rows of the decoded image.
   */
  uint32_t source_height;
  /**
   * 1 if the part's columns are in reverse order, else 0.
   */
  uint32_t is_mirrored;
  /**
   * 0.
   */
  uint32_t reserved;
} cntk_reader_draw;

/**
 * Transforms an image, as cntk_reader_transform_image does, and also gets what was drawn before: `draw` says which part of the
 * decoded image this one shows, and whether it is mirrored.
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
 * A transform of the user's own, as a table of callbacks. Initialize with zeros, and set struct_size.
 *
 * The configuration names it as `type` of an element of `transforms`, without `module`. Images come to it as the transforms
 * before it have left them: as bytes at first.
 *
 * Threads: the callbacks are called by the thread that reads and by the library's own, one at a time for each table; with
 * `thread_safe` several at once. They must not throw, and not use readers of this library.
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
   * The name that the configuration has for it, UTF-8.
   */
  const char *name;
  /**
   * Bytes of the name, or CNTK_READER_NUL_TERMINATED.
   */
  size_t name_length;
  /**
   * Says what becomes of an image; may be NULL: it keeps size, type and order of its values.
   */
  cntk_reader_describe_image describe_image;
  /**
   * Transforms an image. Must be set, unless transform_drawn_image is.
   */
  cntk_reader_transform_image transform_image;
  /**
   * Called once when the transform is not needed any more, at the latest when the reader is freed; may be NULL. Not called if
   * opening the reader fails.
   */
  cntk_reader_finalizer finalizer;
  /**
   * 1 if several threads may transform images at once, else 0.
   */
  uint32_t thread_safe;
  /**
   * 0.
   */
  uint32_t reserved;
  /**
   * Transforms an image, in place of transform_image; may be NULL.
   */
  cntk_reader_transform_drawn_image transform_drawn_image;
} cntk_reader_user_transform;

/**
 * What a reader is opened from: a configuration, and deserializers of the user's own. Initialize with
 * CNTK_READER_SOURCE_INIT, and set exactly one of `text`, `file` and `options`.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_source).
   */
  size_t struct_size;
  /**
   * The text of a configuration in CNTK's configuration language, UTF-8, or NULL. Relative paths in it begin at the
   * process's working folder.
   */
  const char *text;
  /**
   * Bytes of the text, or CNTK_READER_NUL_TERMINATED.
   */
  size_t text_length;
  /**
   * Path of a configuration file, as the operating system has it, or NULL. Its includes are followed.
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
   * Deserializers of the user's own, or NULL. The tables are copied.
   *
   * Each has an element in the configuration's `deserializers`, with its name as `type` and no `module`. If there is
   * only one, the configuration need not have `deserializers`, and may be the text "".
   */
  const cntk_reader_user_deserializer *const *deserializers;
  /**
   * Their number.
   */
  size_t deserializer_count;
  /**
   * Transforms of the user's own, or NULL. The tables are copied. An element of `transforms` in the configuration has the name of
   * one as `type`, and no `module`.
   */
  const cntk_reader_user_transform *const *transforms;
  /**
   * Their number.
   */
  size_t transform_count;
  /**
   * Ends opening and the calls of the reader, or NULL. It may be freed before the reader.
   */
  const cntk_reader_canceller *canceller;
  /**
   * The name of the reader to open of those that the configuration has, UTF-8: the keys that lead to its section, such as
   * "train.reader". NULL: its only one.
   */
  const char *reader;
  /**
   * Bytes of the name, or CNTK_READER_NUL_TERMINATED.
   */
  size_t reader_length;
} cntk_reader_source;

/**
 * What a reader is as a whole. Numbers that are not known yet are CNTK_READER_UNKNOWN: a large text file that is read in
 * its own order is indexed while it is read, and chunks of some users' deserializers list their sequences when they are
 * loaded.
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
   * Samples of one sweep (a pass over the data), in the unit of minibatch and epoch sizes; or CNTK_READER_UNKNOWN.
   */
  uint64_t samples;
  /**
   * Sequences of one sweep; or CNTK_READER_UNKNOWN.
   */
  uint64_t sequences;
  /**
   * Chunks, the units of loading and randomization; or CNTK_READER_UNKNOWN.
   */
  uint64_t chunks;
  /**
   * 1 if sequence keys are numbers in the data: then the keys of minibatches are those numbers. 0 if they are texts,
   * for which the keys of minibatches stand.
   */
  uint32_t numeric_keys;
  /**
   * 1 if workers read in lockstep (`lockstep = true` in the configuration): up to the end of the epoch each reads as many
   * minibatches as the others, some of which may be without data. Else 0.
   */
  uint32_t lockstep;
} cntk_reader_info;

/**
 * Description of a stream. Its pointers live as long as the reader.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_stream_info), set by the caller.
   */
  size_t struct_size;
  /**
   * Unique name among the streams of the reader: UTF-8, NUL-terminated.
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
   * How its values are delivered (truncated readers deliver sparse streams as dense ones).
   */
  cntk_reader_storage storage;
  /**
   * Type of its values.
   */
  cntk_reader_element element;
  /**
   * Shape of one sample, first dimension varying fastest (column-major). One dimension CNTK_READER_UNKNOWN_DIMENSION
   * means that it is known once a minibatch was read.
   */
  const size_t *shape;
  /**
   * Dimensions in `shape`.
   */
  size_t shape_rank;
  /**
   * Values of one sample: the product of `shape`.
   */
  size_t sample_size;
  /**
   * 1 if minibatch sizes are measured in this stream's samples, else 0.
   */
  uint32_t defines_mb_size;
  /**
   * 1 if the values are opaque bytes such as lattices, four of them a sample, else 0. In minibatches of whole sequences
   * the bytes of each sequence are next to each other, see `sequence_major` in cntk_reader_minibatch_stream.
   */
  uint32_t is_binary;
  /**
   * If the values are numbers of classes, from 0 to below this; else 0.
   */
  size_t classes;
} cntk_reader_stream_info;

/**
 * One of the deserializers of a reader, in the configuration's order. The first one gives the order of the data. The
 * strings live as long as the reader.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_member_info), set by the caller.
   */
  size_t struct_size;
  /**
   * Its file, or the name of a user's deserializer: UTF-8, NUL-terminated.
   */
  const char *name;
  /**
   * Its `type` in the configuration: UTF-8, NUL-terminated.
   */
  const char *type_name;
  /**
   * Samples of all its sequences, whether or not other deserializers have them too; or CNTK_READER_UNKNOWN.
   */
  uint64_t samples;
  /**
   * Its sequences; or CNTK_READER_UNKNOWN.
   */
  uint64_t sequences;
  /**
   * Its chunks; or CNTK_READER_UNKNOWN.
   */
  uint64_t chunks;
} cntk_reader_member_info;

/**
 * How far an epoch has come.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_progress), set by the caller.
   */
  size_t struct_size;
  /**
   * Samples of the epoch up to the end of the minibatch read last, those of all workers; where every worker has an
   * order of its own (chunks that list their sequences when they are loaded), those of this worker.
   */
  uint64_t delivered;
  /**
   * Samples that the epoch has, counted as in `delivered`; or CNTK_READER_UNKNOWN, also if the epoch has no end. The
   * last sequence of an epoch is delivered whole, so `delivered` may end a little above it.
   */
  uint64_t expected;
  /**
   * The sweep, from 0, that the next sample belongs to.
   */
  uint64_t sweep;
} cntk_reader_progress;

/**
 * Memory that a reader holds, in bytes. Counted are the arrays of chunks, minibatches and indexes.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_memory), set by the caller.
   */
  size_t struct_size;
  /**
   * Chunks: those of the randomization window, those loaded ahead, and memory kept for the next ones.
   */
  uint64_t window;
  /**
   * Minibatches: those that the caller holds, those that are ready or being made, and memory kept for the next ones.
   */
  uint64_t buffers;
  /**
   * Tables of chunks, sequences and keys.
   */
  uint64_t index;
} cntk_reader_memory;

/**
 * An epoch to start. Initialize with CNTK_READER_EPOCH_INIT: one worker, no limit.
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
   * Which of the workers this reader is, from 0. CNTK_READER_NO_RANK, the initial value, is an error with several workers.
   */
  uint64_t rank;
  /**
   * Minibatch size in samples of all workers together, at least 1.
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
   * Size of the epoch in samples of all workers, CNTK_READER_ONE_SWEEP or CNTK_READER_UNLIMITED_SAMPLES. Ignored if
   * `sweeps` is not CNTK_READER_UNLIMITED_SWEEPS.
   */
  uint64_t samples;
  /**
   * Size of the epoch in sweeps (passes over the data), or CNTK_READER_UNLIMITED_SWEEPS.
   */
  uint64_t sweeps;
  /**
   * Which epoch, from 0: it begins at sample `index` * size of the endless sequence of sweeps.
   * Where chunks list their sequences only when they are loaded, and `samples` is the size, one
   * after 0 has to follow the epoch before it.
   */
  uint64_t index;
} cntk_reader_epoch;

/**
 * Sizes, workers and flags of the minibatches to come. Initialize with CNTK_READER_CONFIGURATION_INIT.
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
   * Which of the workers this reader is, from 0. CNTK_READER_NO_RANK, the initial value, is an error with several workers.
   */
  uint64_t rank;
  /**
   * Minibatch size in samples of all workers together, at least 1.
   */
  uint64_t minibatch_size;
  /**
   * Time steps of a truncated minibatch; 0 unless the configuration has `truncated = true`. An epoch starts with the
   * configuration's `truncationLength` whatever stands here.
   */
  uint64_t truncation_length;
  /**
   * Steps by which the truncated minibatches of one sequence overlap. An epoch starts with the configuration's
   * `rightSplice` whatever stands here.
   */
  uint64_t right_splice;
  /**
   * 1 if a minibatch may continue past the end of a sweep, 0 if it ends there.
   */
  uint64_t cross_sweeps;
} cntk_reader_configuration;

/**
 * What a minibatch is as a whole. The pointer lives as long as the minibatch.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_minibatch_info), set by the caller.
   */
  size_t struct_size;
  /**
   * 1 if it reaches or crosses the end of a sweep, else 0.
   */
  uint32_t end_of_sweep;
  /**
   * 1 if it is the last of the epoch, or comes after the last, else 0.
   */
  uint32_t end_of_epoch;
  /**
   * Number of streams: the reader's, or 0 if there is no data.
   */
  size_t stream_count;
  /**
   * The key of each sequence as a number, by the sequence's number in the records.
   */
  const uint64_t *keys;
  /**
   * Number of keys, that is of sequences.
   */
  size_t key_count;
  /**
   * 1 if it is a step of training: it has data, or workers in lockstep take part in it, some of
   * them without data. Else 0: it comes after the end of the epoch, or none of it is this
   * worker's share. cntk_reader_minibatch_next gives none of these.
   */
  uint32_t is_step;
  /**
   * 0.
   */
  uint32_t reserved;
} cntk_reader_minibatch_info;

/**
 * A run of time steps in one lane (a parallel sequence of the layout) that belongs to one sequence, or to none (a gap).
 */
typedef struct {
  /**
   * Number of the sequence within the minibatch, from 0, the same in all streams, or CNTK_READER_GAP.
   */
  uint64_t sequence;
  /**
   * Lane, that is parallel sequence, from 0.
   */
  uint64_t lane;
  /**
   * Time step at which the sequence begins. Negative if it began in an earlier minibatch (truncated mode).
   */
  int64_t begin;
  /**
   * The time step after its last one. Greater than the number of steps if the sequence continues in a later minibatch
   * (truncated mode).
   */
  uint64_t end;
} cntk_reader_record;

/**
 * One stream's part of a minibatch. All pointers live as long as the minibatch.
 *
 * The library does not change them. A program may write to the values, indices and column offsets where they lie, if it holds
 * all references to the minibatch and none of its threads uses them meanwhile.
 *
 * The data are `columns` = `steps` * `lanes` columns of `sample_size` values; step t of lane s is column
 * t * lanes + s.
 * Every column is covered by exactly one record; columns of gap records hold no data (dense: zeros, sparse: nothing).
 *
 * Binary streams differ in minibatches of whole sequences: with `sequence_major` step t of lane s is column
 * s * steps + t, so that the samples of a sequence are next to each other. Each sequence has a lane of its own, and
 * columns that no record covers hold zeros.
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
   * Columns: steps * lanes, gaps included.
   */
  size_t columns;
  /**
   * Columns with data.
   */
  size_t samples;
  /**
   * Sequences with data.
   */
  size_t sequences;
  /**
   * Which columns belong to which sequence.
   */
  const cntk_reader_record *records;
  /**
   * Number of records, gaps included.
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
   * Values of one sample: the height of a column.
   */
  size_t sample_size;
  /**
   * The values, of type `element`. Dense: all columns, one after the other. Sparse: the stored values in order of
   * columns.
   */
  const void *values;
  /**
   * Number of values. Dense: columns * sample_size. Sparse: the number of stored values.
   */
  size_t value_count;
  /**
   * Sparse: the index of each stored value within its column, from 0, in the order of the input, which may be unsorted
   * and may repeat an index. Dense: NULL.
   */
  const int32_t *indices;
  /**
   * Sparse: columns + 1 ascending numbers; column c has the stored values from `column_offsets[c]` to before
   * `column_offsets[c + 1]`. Dense: NULL.
   */
  const int32_t *column_offsets;
  /**
   * The whole block as CNTK lays it out, aligned to 64 bytes. Dense: the values. Sparse: uint64 number of values,
   * the values, the int32 indices, the int32 column offsets.
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
   * 1 if the first `samples` columns are the sequences one after the other, without gaps between them, else 0.
   */
  uint32_t is_packed;
  /**
   * Samples of the longest sequence, of which in truncated mode the part in this minibatch counts.
   */
  size_t longest;
  /**
   * Shape of one sample, first dimension varying fastest (column-major).
   */
  const size_t *shape;
  /**
   * Dimensions in `shape`.
   */
  size_t shape_rank;
} cntk_reader_minibatch_stream;

/**
 * One entry of a reader's state.
 */
typedef struct {
  /**
   * Name of the entry, UTF-8. From the library: NUL-terminated and valid as long as the library is loaded.
   */
  const char *key;
  /**
   * Bytes of the name without a NUL. To the library: may be CNTK_READER_NUL_TERMINATED.
   */
  size_t key_length;
  /**
   * Its value.
   */
  uint64_t value;
} cntk_reader_state_entry;

/**
 * Called now and then with how far a conversion has come: bytes of the input that are done, bytes that it has, and
 * sequences written. Returns 0 to continue, anything else to stop: the conversion then fails with
 * CNTK_READER_STATUS_USER. Called on the thread that converts. It must not throw.
 */
typedef uint32_t (*cntk_reader_progress_callback)(void *userdata,
                                                  uint64_t bytes,
                                                  uint64_t total,
                                                  uint64_t sequences);

/**
 * A conversion of a file. Initialize with CNTK_READER_CONVERSION_INIT. Strings are UTF-8 and NUL-terminated.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_conversion).
   */
  size_t struct_size;
  /**
   * A cntk_reader_direction.
   */
  uint32_t direction;
  /**
   * 0.
   */
  uint32_t reserved;
  /**
   * Path of the file to read.
   */
  const char *input;
  /**
   * Path of the file to write. It appears when it is complete, and replaces one that may be there.
   */
  const char *output;
  /**
   * For text to binary: the streams, one to a line, as `name alias dense|sparse dimension`; `alias` is the name in
   * the text, `name` that in the binary file, which has the streams in this order. For text and labels: the name of
   * the stream in the text. Otherwise NULL.
   */
  const char *streams;
  /**
   * For text to binary: bytes of a chunk. 0 makes every sequence a chunk.
   */
  uint64_t chunk_size;
  /**
   * For text to binary: 0 for single precision, 1 for double.
   */
  uint32_t double_precision;
  /**
   * For text to binary: 1 to cut chunks as CNTK's ctf2bin.py does, one sequence to a chunk after the first
   * chunk, so that files are equal byte for byte; else 0.
   */
  uint32_t ctf2bin_compatible;
  /**
   * Called while the conversion runs, or NULL.
   */
  cntk_reader_progress_callback progress;
  /**
   * Handed to `progress`.
   */
  void *userdata;
  /**
   * For archives of HTK and Kaldi: path of the script to write, which names the utterances of the archive; or NULL.
   */
  const char *script;
  /**
   * For label files: path of the list of states, or NULL if lines have class numbers.
   */
  const char *states;
  /**
   * For labels to text: 1 to number sequences from 0 on, 0 to give them the utterances' keys as ids.
   */
  uint32_t number_ids;
  /**
   * For compressing by zstd: the level, from 1, the fastest, to 22, the smallest; 0 for the default, 9.
   */
  uint32_t compression_level;
} cntk_reader_conversion;

/**
 * Receives one log line without its line break: UTF-8, NUL-terminated, `length` bytes without the NUL, valid during
 * the call only. It is called from any thread, also from several at once. It must not throw. A call on the reader that
 * logs the line gives CNTK_READER_STATUS_STATE.
 */
typedef void (*cntk_reader_log_callback)(void *userdata,
                                         cntk_reader_log_level level,
                                         const char *line,
                                         size_t length);

/**
 * Opens a file for reading. `path` is the whole path, with its scheme: UTF-8, `length` bytes. `*file` gets what the
 * other callbacks are called with for this file. Returns a cntk_reader_file_status.
 */
typedef int32_t (*cntk_reader_open_file)(void *userdata,
                                         const char *path,
                                         size_t length,
                                         void **file,
                                         cntk_reader_failure *failure);

/**
 * Gives the bytes of a file: `size` has to be set. Returns a cntk_reader_file_status.
 */
typedef int32_t (*cntk_reader_get_file_size)(void *userdata,
                                             void *file,
                                             uint64_t *size,
                                             cntk_reader_failure *failure);

/**
 * Reads at most `capacity` bytes from `offset` on into `buffer`, at least one, and gives their number, 0 only at the file's
 * end: `count` has to be set. Returns a cntk_reader_file_status.
 */
typedef int32_t (*cntk_reader_read_file)(void *userdata,
                                         void *file,
                                         uint64_t offset,
                                         void *buffer,
                                         size_t capacity,
                                         size_t *count,
                                         cntk_reader_failure *failure);

/**
 * Writes at most `capacity` bytes to `identity`, and gives their number: bytes that are equal as long as the file's content
 * is, such as an ETag or a version, or a digest of one that is longer. Returns a cntk_reader_file_status.
 */
typedef int32_t (*cntk_reader_get_file_identity)(void *userdata,
                                                 void *file,
                                                 void *identity,
                                                 size_t capacity,
                                                 size_t *length,
                                                 cntk_reader_failure *failure);

/**
 * Closes a file. No other callback runs for the file then or later.
 */
typedef void (*cntk_reader_close_file)(void *userdata, void *file);

/**
 * A file system of the program's own, such as an object store, as a table of callbacks. Initialize with zeros, and set
 * struct_size.
 *
 * Threads: the callbacks are called by any thread, several at once, by the library's own too. They must not throw, and not
 * use readers of this library. They are not called any more once the process ends.
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
   * Gives the bytes of a file. Must be set.
   */
  cntk_reader_get_file_size get_size;
  /**
   * Reads from a file. Must be set.
   */
  cntk_reader_read_file read_at;
  /**
   * Identifies a file's content; may be NULL: changes of a file are then noticed by its size alone.
   */
  cntk_reader_get_file_identity get_identity;
  /**
   * Closes a file; may be NULL if there is nothing to close.
   */
  cntk_reader_close_file close_file;
  /**
   * Called once, by any thread, when the file system is no longer mounted and all its files are closed; may be NULL. Not
   * called if mounting fails.
   */
  cntk_reader_finalizer finalizer;
} cntk_reader_file_system;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The library's version as major * 1000000 + minor * 1000 + patch: compare with CNTK_READER_VERSION.
 */
uint32_t cntk_reader_version_get(void);

/**
 * The library's version as text ("0.1.0"), NUL-terminated, valid as long as the library is loaded.
 */
const char *cntk_reader_version_get_text(void);

/**
 * The ABI number of the library that the program runs with: compare with CNTK_READER_ABI_VERSION. The loader compares
 * them too, because the SONAME has the same number; programs that open the library by a path of their own ask here.
 */
uint32_t cntk_reader_version_get_abi(void);

/**
 * Gives the parts of an error. Returns CNTK_READER_STATUS_INVALID_ARGUMENT if an argument is NULL or
 * `info->struct_size` is not set.
 */
cntk_reader_status cntk_reader_error_describe(const cntk_reader_error *error, cntk_reader_error_info *info);

/**
 * The message with all that is known of the place, for people: UTF-8, NUL-terminated, valid as long as the error. It is
 * one line; for a mistake in a configuration's text two more follow, which show the mistake. For NULL: "".
 */
const char *cntk_reader_error_get_text(const cntk_reader_error *error);

/**
 * The object that a failing callback has added with cntk_reader_failure_set_cause, or NULL. It lives at least as long
 * as the error.
 */
void *cntk_reader_error_get_cause(const cntk_reader_error *error);

/**
 * Frees an error. NULL is allowed.
 */
void cntk_reader_error_free(cntk_reader_error *error);

/**
 * Makes a canceller, which the caller owns.
 */
cntk_reader_status cntk_reader_canceller_create(cntk_reader_canceller **canceller, cntk_reader_error **error);

/**
 * Ends the calls in progress of the readers that were opened with this canceller, opening included: they return
 * CNTK_READER_STATUS_CANCELLED soon, and have changed nothing. Made again, such a call continues where it stood, and no
 * minibatch is lost. Gives 1 if there is a call to be ended, else 0: then nothing happens, and the next call is not affected.
 * Returns at once. May be called from any thread, but not from a handler of signals.
 */
cntk_reader_status cntk_reader_canceller_cancel(const cntk_reader_canceller *canceller,
                                                uint32_t *ends,
                                                cntk_reader_error **error);

/**
 * Frees a canceller. NULL is allowed. Readers that were opened with it stay usable; nothing ends their calls any more.
 */
void cntk_reader_canceller_free(cntk_reader_canceller *canceller);

/**
 * Makes options without values, which the caller owns. `front_end` is a cntk_reader_front_end:
 * messages call options what it calls them; programs in C have
 * CNTK_READER_FRONT_END_CONFIGURATION.
 */
cntk_reader_status cntk_reader_options_create(uint32_t front_end,
                                              cntk_reader_options **options,
                                              cntk_reader_error **error);

/**
 * Makes a copy of options, which the caller owns.
 */
cntk_reader_status cntk_reader_options_copy(const cntk_reader_options *options,
                                            cntk_reader_options **copy,
                                            cntk_reader_error **error);

/**
 * Frees options. NULL is allowed. Readers that were opened from them, and options that got them as
 * a section, stay as they are.
 */
void cntk_reader_options_free(cntk_reader_options *options);

/**
 * Sets an option to 1, true, or to 0, false. As all setters it replaces the value that the option
 * had. `key` has `key_length` bytes, or CNTK_READER_NUL_TERMINATED; it is UTF-8, and upper and
 * lower case are the same.
 */
cntk_reader_status cntk_reader_options_set_flag(cntk_reader_options *options,
                                                const char *key,
                                                size_t key_length,
                                                uint32_t value,
                                                cntk_reader_error **error);

/**
 * Sets an option to a number that may be negative.
 */
cntk_reader_status cntk_reader_options_set_integer(cntk_reader_options *options,
                                                   const char *key,
                                                   size_t key_length,
                                                   int64_t value,
                                                   cntk_reader_error **error);

/**
 * Sets an option to a number without a sign: a size, a count, a seed.
 */
cntk_reader_status cntk_reader_options_set_size(cntk_reader_options *options,
                                                const char *key,
                                                size_t key_length,
                                                uint64_t value,
                                                cntk_reader_error **error);

/**
 * Sets an option to a number with a fraction.
 */
cntk_reader_status cntk_reader_options_set_real(cntk_reader_options *options,
                                                const char *key,
                                                size_t key_length,
                                                double value,
                                                cntk_reader_error **error);

/**
 * Sets an option to a text, UTF-8: a word of the library's, such as "double", or a name. `text`
 * has `text_length` bytes, or CNTK_READER_NUL_TERMINATED. Several numbers may be one text, "5:5".
 */
cntk_reader_status cntk_reader_options_set_text(cntk_reader_options *options,
                                                const char *key,
                                                size_t key_length,
                                                const char *text,
                                                size_t text_length,
                                                cntk_reader_error **error);

/**
 * Adds a text to an option that is a list.
 */
cntk_reader_status cntk_reader_options_add_text(cntk_reader_options *options,
                                                const char *key,
                                                size_t key_length,
                                                const char *text,
                                                size_t text_length,
                                                cntk_reader_error **error);

/**
 * Sets an option to the path of one file or folder, as the operating system has it. `path` has
 * `path_length` bytes, or CNTK_READER_NUL_TERMINATED.
 */
cntk_reader_status cntk_reader_options_set_path(cntk_reader_options *options,
                                                const char *key,
                                                size_t key_length,
                                                const char *path,
                                                size_t path_length,
                                                cntk_reader_error **error);

/**
 * Adds a path to an option that is a list of paths: script files, files of labels, folders.
 */
cntk_reader_status cntk_reader_options_add_path(cntk_reader_options *options,
                                                const char *key,
                                                size_t key_length,
                                                const char *path,
                                                size_t path_length,
                                                cntk_reader_error **error);

/**
 * Adds to the files of a text or binary deserializer (`file`): a path, or a pattern of paths, such
 * as "train-*.ctf". A path that exists is no pattern. Their data follow those of the files before.
 */
cntk_reader_status cntk_reader_options_add_file(cntk_reader_options *options,
                                                const char *key,
                                                size_t key_length,
                                                const char *path,
                                                size_t path_length,
                                                cntk_reader_error **error);

/**
 * Sets an option to other options, which are copied: `input`, or in `input` the options of a
 * stream by its name. A section is not replaced, because names that differ in upper and lower case
 * alone would be one stream.
 */
cntk_reader_status cntk_reader_options_set_section(cntk_reader_options *options,
                                                   const char *key,
                                                   size_t key_length,
                                                   const cntk_reader_options *section,
                                                   cntk_reader_error **error);

/**
 * Adds other options, which are copied, to a list: `deserializers`, `transforms`.
 */
cntk_reader_status cntk_reader_options_add_section(cntk_reader_options *options,
                                                   const char *key,
                                                   size_t key_length,
                                                   const cntk_reader_options *section,
                                                   cntk_reader_error **error);

/**
 * Writes options in CNTK's configuration language: the lines of a configuration, or if
 * `in_brackets` is 1 those of a section. NUL-terminated if they fit into `capacity` bytes, and
 * their length. `text` may be NULL if `capacity` is 0. A name or a text that the language has no
 * way to write is an error; every path can be written.
 */
cntk_reader_status cntk_reader_options_write(const cntk_reader_options *options,
                                             uint32_t in_brackets,
                                             char *text,
                                             size_t capacity,
                                             size_t *length,
                                             cntk_reader_error **error);

/**
 * Opens a reader. Opens and indexes its files, which may take a while for large ones, and reads no data yet. The caller
 * owns the reader, and frees it with cntk_reader_free. Of the source nothing is kept but the callbacks and the userdata
 * of its deserializers.
 */
cntk_reader_status cntk_reader_open(const cntk_reader_source *source,
                                    cntk_reader **reader,
                                    cntk_reader_error **error);

/**
 * Gives the names of the readers that a configuration has in its sections, one in each line: those that the member `reader` of a
 * source takes. NUL-terminated if they fit into `capacity` bytes, and their length. `text` may be NULL if `capacity` is 0.
 */
cntk_reader_status cntk_reader_source_list_readers(const cntk_reader_source *source,
                                                   char *text,
                                                   size_t capacity,
                                                   size_t *length,
                                                   cntk_reader_error **error);

/**
 * Frees a reader. NULL is allowed. Minibatches, errors and buffers that came from it stay valid; the descriptions of its
 * streams and deserializers do not. Must not be called while another call on the reader is under way. In the child of a
 * fork it returns at once and leaves the memory alone.
 */
void cntk_reader_free(cntk_reader *reader);

/**
 * Describes a reader as a whole. `info->struct_size` must be set.
 */
cntk_reader_status cntk_reader_describe(const cntk_reader *reader,
                                        cntk_reader_info *info,
                                        cntk_reader_error **error);

/**
 * Describes stream `index`, from 0. `info->struct_size` must be set. May be called from any thread.
 */
cntk_reader_status cntk_reader_stream_describe(const cntk_reader *reader,
                                               size_t index,
                                               cntk_reader_stream_info *info,
                                               cntk_reader_error **error);

/**
 * Describes deserializer `index` of a reader, from 0. `info->struct_size` must be set.
 */
cntk_reader_status cntk_reader_member_describe(const cntk_reader *reader,
                                               size_t index,
                                               cntk_reader_member_info *info,
                                               cntk_reader_error **error);

/**
 * Gives how far the epoch has come with the minibatch read last, however much is read ahead: for a progress bar.
 * `progress->struct_size` must be set. An epoch must have been started, or a checkpoint restored.
 */
cntk_reader_status cntk_reader_progress_get(const cntk_reader *reader,
                                            cntk_reader_progress *progress,
                                            cntk_reader_error **error);

/**
 * Gives the memory that a reader holds now. `memory->struct_size` must be set.
 */
cntk_reader_status cntk_reader_memory_get(const cntk_reader *reader,
                                          cntk_reader_memory *memory,
                                          cntk_reader_error **error);

/**
 * Gives a value for the configuration's `chunkSizeInBytes` with which this many workers share the data evenly.
 * Randomized data are shared out by chunks, so a window needs several chunks for each worker: the value is the bytes of
 * a window divided by 8 for each worker, but at most CNTK's default of 32 MiB. Without a file to measure it is that
 * default.
 */
cntk_reader_status cntk_reader_chunk_size_suggest(const cntk_reader *reader,
                                                  uint64_t workers,
                                                  uint64_t *bytes,
                                                  cntk_reader_error **error);

/**
 * Starts an epoch: goes to its first sample and takes sizes, workers and flags. Needed before the first minibatch is
 * read, except after cntk_reader_checkpoint_restore. May be called at any time, also in the middle of an epoch.
 */
cntk_reader_status cntk_reader_epoch_start(cntk_reader *reader,
                                           const cntk_reader_epoch *epoch,
                                           cntk_reader_error **error);

/**
 * Starts the epoch after the one in force and gives its number, from 0: for training loops that
 * read one epoch after the other. `epoch` says its size, workers and flags; its member `index` is
 * ignored. Without an epoch in force, or after one without an end, it is number 0. After
 * cntk_reader_checkpoint_restore the first call goes on with the rest of the checkpoint's epoch,
 * unless its end was reported before. An error if the epoch in force has another size, because the
 * number of the next one is not known then: cntk_reader_epoch_start sets it.
 */
cntk_reader_status cntk_reader_epoch_start_next(cntk_reader *reader,
                                                const cntk_reader_epoch *epoch,
                                                uint64_t *index,
                                                cntk_reader_error **error);

/**
 * Gives the epoch in force, that of a restored checkpoint too, as it was started, and how far it
 * has come. `epoch->struct_size` must be set. If there is none, `epoch` gets its initial values.
 */
cntk_reader_status cntk_reader_epoch_get(const cntk_reader *reader,
                                         cntk_reader_epoch *epoch,
                                         cntk_reader_epoch_state *state,
                                         cntk_reader_error **error);

/**
 * Changes sizes, workers and flags between two minibatches of an epoch. The position stays; sequences that a truncated
 * reader had begun are not continued (CNTK 2.7 drops them too).
 */
cntk_reader_status cntk_reader_configuration_set(cntk_reader *reader,
                                                 const cntk_reader_configuration *configuration,
                                                 cntk_reader_error **error);

/**
 * Gives the sizes, workers and flags in force, those of a restored checkpoint too. `configuration->struct_size` must be
 * set. An epoch must have been started, or a checkpoint restored.
 */
cntk_reader_status cntk_reader_configuration_get(const cntk_reader *reader,
                                                 cntk_reader_configuration *configuration,
                                                 cntk_reader_error **error);

/**
 * Reads the next step of the epoch: a minibatch with data or, in lockstep, one that all workers
 * take part in. The caller owns one reference to it, and releases it with
 * cntk_reader_minibatch_release. `outcome` says whether there is one; if not, `minibatch` becomes
 * NULL.
 *
 * The call waits no longer than `milliseconds`, or without a limit if that is
 * CNTK_READER_NO_TIMEOUT. Nothing is lost by giving up: the data are read on a thread of the
 * reader's meanwhile, and a later call gives the minibatch. It may wait longer after a call that
 * failed or was cancelled, whose effects are undone first, and if the system has no thread left to
 * start.
 *
 * After an error in the data, the next call continues with what follows. After
 * CNTK_READER_STATUS_IO, a file that could not be read, it tries to deliver the same minibatch,
 * unless the reason stays: a file that is missing does not come back by itself.
 */
cntk_reader_status cntk_reader_minibatch_next(cntk_reader *reader,
                                              uint64_t milliseconds,
                                              const cntk_reader_minibatch **minibatch,
                                              cntk_reader_outcome *outcome,
                                              cntk_reader_error **error);

/**
 * Waits until the next minibatch, or an error in its place, can be had without waiting, but no
 * longer than `milliseconds`, as cntk_reader_minibatch_next does. `is_ready` becomes 1 if it can,
 * by cntk_reader_minibatch_read as by cntk_reader_minibatch_next (which waits again only where
 * this worker has no share of a minibatch), else 0. Nothing is delivered, so a program that is
 * interrupted while it waits has lost nothing.
 */
cntk_reader_status cntk_reader_minibatch_wait(cntk_reader *reader,
                                              uint64_t milliseconds,
                                              uint32_t *is_ready,
                                              cntk_reader_error **error);

/**
 * Reads the next minibatch, as CNTK's GetMinibatch does; the caller owns one reference to it, and
 * releases it with cntk_reader_minibatch_release. cntk_reader_minibatch_next is easier to use.
 *
 * Past the end of the epoch, every read gives a minibatch without streams and with the flag end_of_epoch. A worker may
 * also get one without streams earlier, when none of the data is its share; `is_step` tells these
 * from steps. Errors are those of cntk_reader_minibatch_next.
 */
cntk_reader_status cntk_reader_minibatch_read(cntk_reader *reader,
                                              const cntk_reader_minibatch **minibatch,
                                              cntk_reader_error **error);

/**
 * Adds a reference. NULL is allowed. May be called from any thread.
 */
void cntk_reader_minibatch_retain(const cntk_reader_minibatch *minibatch);

/**
 * Takes a reference away; with the last one all pointers into the minibatch become invalid. NULL is allowed. May be
 * called from any thread.
 */
void cntk_reader_minibatch_release(const cntk_reader_minibatch *minibatch);

/**
 * Describes a minibatch. `info->struct_size` must be set. May be called from any thread.
 */
cntk_reader_status cntk_reader_minibatch_describe(const cntk_reader_minibatch *minibatch,
                                                  cntk_reader_minibatch_info *info,
                                                  cntk_reader_error **error);

/**
 * Gives the key of a sequence as text, as CNTK shows it: UTF-8, as much of it as fits into `capacity` bytes, always with a
 * NUL if `capacity` is not 0; and its whole length in bytes without the NUL. `text` may be NULL if `capacity` is 0.
 * `sequence` is the number in the records. May be called from any thread.
 */
cntk_reader_status cntk_reader_minibatch_get_key_text(const cntk_reader_minibatch *minibatch,
                                                      size_t sequence,
                                                      char *text,
                                                      size_t capacity,
                                                      size_t *length,
                                                      cntk_reader_error **error);

/**
 * Describes stream `index` of a minibatch, from 0: its layout, and pointers to its data where they lie.
 * `stream->struct_size` must be set. May be called from any thread.
 */
cntk_reader_status cntk_reader_minibatch_stream_describe(const cntk_reader_minibatch *minibatch,
                                                         size_t index,
                                                         cntk_reader_minibatch_stream *stream,
                                                         cntk_reader_error **error);

/**
 * Writes the sequences of stream `index` side by side, filled up to `length` samples each.
 *
 * With `sequences`, `longest` and `sample_size` of cntk_reader_minibatch_stream: `values` gets
 * sequences * length samples of `sample_size` values, of the stream's element type, and must have
 * room for them: `value_capacity` values. `length` must not be less than `longest`. `values` may
 * be NULL if `value_capacity` is 0: the values are left out then. Past the end of a sequence the
 * values are `fill`, which must be a value of that type. `mask` gets sequences * length bytes, 1
 * for each sample of a sequence, else 0; it has room for `mask_capacity` bytes, and may be NULL if
 * that is 0.
 *
 * The sequences are in the order of their numbers, which is that of the keys, and gaps are left out. Of a truncated sequence it
 * is the part in this minibatch. Samples of a sparse stream become dense; more than 2^31 values of them are an error.
 * May be called from any thread.
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
 * Writes the samples of stream `index`, one sequence after the other.
 *
 * With `sequences`, `samples` and `sample_size` of cntk_reader_minibatch_stream: `values` gets samples * sample_size values of the
 * stream's element type, and has room for `value_capacity` of them. `offsets` gets sequences + 1 numbers: the number of each
 * sequence's first sample, and at the end `samples`; it has room for `offset_capacity`. Either pointer may be NULL if its
 * capacity is 0: its part is left out then. If `is_packed` is set, the packed values of a dense stream are those that the
 * minibatch has, from their start.
 *
 * Order, truncated sequences and sparse streams are as for cntk_reader_minibatch_stream_pad. May be called from any thread.
 */
cntk_reader_status cntk_reader_minibatch_stream_pack(const cntk_reader_minibatch *minibatch,
                                                     size_t index,
                                                     void *values,
                                                     size_t value_capacity,
                                                     int32_t *offsets,
                                                     size_t offset_capacity,
                                                     cntk_reader_error **error);

/**
 * Writes the index of the 1 in each sample of stream `index`, whose samples are one-hot:
 * sequences * length indices in the order of cntk_reader_minibatch_stream_pad, and `fill` past the
 * end of a sequence. `element` is the type of the indices and of `fill`:
 * `CNTK_READER_ELEMENT_INT32` or `CNTK_READER_ELEMENT_INT64`. `indices` has room for
 * `index_capacity` of them, and may be NULL if that is 0. A sample that is not one-hot is an error.
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
 * Writes the index of the 1 in each sample of stream `index`, whose samples are one-hot: `samples`
 * indices in the order of cntk_reader_minibatch_stream_pack. `element` is their type, as for
 * cntk_reader_minibatch_stream_pad_indices. `indices` has room for `index_capacity` of them, and
 * may be NULL if that is 0; `offsets` is as there. A sample that is not one-hot is an error.
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
 * Writes the columns of stream `index`, which is sparse, with ascending indices in each column, each index once. Values of an index
 * that a sample has more than once are added up.
 *
 * With `value_count` and `columns` of cntk_reader_minibatch_stream: `values` has room for `value_capacity` values of the stream's element
 * type, and `indices` for as many indices, at least `value_count`; `offsets` has room for `offset_capacity` numbers, at least columns + 1.
 * `count` gets the number of values and indices that were written. May be called from any thread.
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
 * Writes the entries of stream `index`, which is sparse, as an embedding of bags takes them: one
 * sequence after the other in the order of cntk_reader_minibatch_stream_pack, without gaps, the
 * entries of a sample in the data's order.
 *
 * With `value_count` and `samples` of cntk_reader_minibatch_stream: `indices` has room for
 * `entry_capacity` indices of the type `element`, as for cntk_reader_minibatch_stream_pad_indices,
 * and `weights` for as many values of the stream's element type, at least `value_count`. `offsets`
 * has room for `offset_capacity` numbers, at least samples + 1: the number of each sample's first
 * entry, then the number of all entries. The offsets of cntk_reader_minibatch_stream_pack say where
 * sequences begin among the samples. `are_ones` gets 1 if all weights are 1, otherwise 0.
 *
 * A dense stream is an error; in truncated minibatches all streams are dense. May be called from
 * any thread.
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
 * Saves a checkpoint that continues exactly in every mode: opaque bytes, versioned and checksummed, a few hundred in
 * most modes. It stands for the position after the minibatch that was read last. The caller owns the buffer.
 */
cntk_reader_status cntk_reader_checkpoint_save(const cntk_reader *reader,
                                               cntk_reader_buffer **checkpoint,
                                               cntk_reader_error **error);

/**
 * Restores a checkpoint, given as its `size` bytes: the next minibatch is the one that followed it.
 * Also starts the epoch that it was taken in, so that a new reader can continue at once, as the
 * worker that saved it. A reader whose number of workers and rank were set, by
 * cntk_reader_epoch_start or cntk_reader_configuration_set, keeps them. A checkpoint of other data,
 * of another configuration, or one that these workers cannot continue exactly is refused with an
 * error that says what differs; the reader is then as before.
 */
cntk_reader_status cntk_reader_checkpoint_restore(cntk_reader *reader,
                                                  const uint8_t *bytes,
                                                  size_t size,
                                                  cntk_reader_error **error);

/**
 * As cntk_reader_checkpoint_restore, where the values of the data were changed on purpose since the checkpoint was saved: the
 * sequences must be the same, in their keys and lengths.
 */
cntk_reader_status cntk_reader_checkpoint_restore_over_changed_values(cntk_reader *reader,
                                                                      const uint8_t *bytes,
                                                                      size_t size,
                                                                      cntk_reader_error **error);

/**
 * Gives CNTK's checkpoint state, that of the minibatch read last: the first `capacity` of its entries, and their number,
 * which may be greater than `capacity`. `entries` may be NULL if `capacity` is 0. There is one entry,
 * "minibatchSourcePosition" (in samples), or five if chunks list their sequences when they are loaded, as in some
 * users' deserializers. It continues exactly in most modes; only cntk_reader_checkpoint_save does so in all.
 */
cntk_reader_status cntk_reader_state_get(const cntk_reader *reader,
                                         cntk_reader_state_entry *entries,
                                         size_t capacity,
                                         size_t *count,
                                         cntk_reader_error **error);

/**
 * Restores CNTK's checkpoint state, also one that CNTK itself has saved. An epoch must have been started before.
 * Entries that are not known are ignored; a missing one is an error. A state does not say how many workers saved it: with
 * `localTimeline = true` other workers lose and repeat sequences, as in CNTK 2.7. cntk_reader_checkpoint_restore compares them.
 */
cntk_reader_status cntk_reader_state_set(cntk_reader *reader,
                                         const cntk_reader_state_entry *entries,
                                         size_t count,
                                         cntk_reader_error **error);

/**
 * Gives the bytes of a buffer: a pointer that is valid as long as the buffer, and their number.
 */
cntk_reader_status cntk_reader_buffer_get_bytes(const cntk_reader_buffer *buffer,
                                                const uint8_t **bytes,
                                                size_t *size,
                                                cntk_reader_error **error);

/**
 * Frees a buffer. NULL is allowed.
 */
void cntk_reader_buffer_free(cntk_reader_buffer *buffer);

/**
 * Converts a file from one format to the other. Returns when the output is complete; if the conversion fails or is
 * stopped, no output and no part of one is left. May be called from any thread.
 */
cntk_reader_status cntk_reader_conversion_run(const cntk_reader_conversion *conversion,
                                              cntk_reader_error **error);

/**
 * Sets the number of threads that load and parse data, for readers opened from now on; they share one pool. 0 restores
 * the default: the environment variable CNTK_READER_THREADS, or else the CPUs that this process may use. More than 1024
 * threads are not started; a warning says so. What a reader delivers does not depend on it. May be called from any thread.
 */
cntk_reader_status cntk_reader_threads_set(size_t threads,
                                           cntk_reader_error **error);

/**
 * Gives the number of loading threads that a reader opened now would use. May be called from any thread.
 */
cntk_reader_status cntk_reader_threads_get(size_t *threads, cntk_reader_error **error);

/**
 * Ends all callbacks, for a host that ends before its process does: an interpreter calls this before it tears itself down. No
 * callback begins any more, and this waits, for ten seconds at most, until those that are running have returned. Calls that
 * need a callback fail from then on with CNTK_READER_STATUS_STATE, and what callbacks would have released is left alone.
 *
 * When the process itself ends, the library does this by itself. It cannot be undone. May be called from any thread.
 */
void cntk_reader_callbacks_end(void);

/**
 * Keeps this thread for good, in a callback whose thread its host is ending: `pthread_exit` would unwind frames of this
 * library, which cannot be. It sleeps until the process ends, and no call of the library waits for it. Never returns. Callbacks in
 * C need not call it: the library does so itself. Those in C++ do, where they catch `abi::__forced_unwind`.
 */
void cntk_reader_thread_park(void);

/**
 * Sends all further log lines of the process to a callback; a NULL callback restores standard error. Lines below a
 * reader's `traceLevel` go to neither.
 *
 * `finalizer`, which may be NULL, is called once when the userdata is not needed any more: after the callback was
 * replaced and its last call has returned. That may be later than this call's return if other threads are logging. If
 * this call fails, the finalizer is not called. May be called from any thread.
 */
cntk_reader_status cntk_reader_log_set_callback(void *userdata,
                                                cntk_reader_log_callback callback,
                                                cntk_reader_finalizer finalizer,
                                                cntk_reader_error **error);

/**
 * Says why a callback fails. The message (UTF-8; `length` bytes, or CNTK_READER_NUL_TERMINATED) is copied, and comes with
 * the error of the call that needed the callback, of kind CNTK_READER_STATUS_USER. The callback then returns a number
 * other than 0. A callback that has set a message has failed even if it returns 0, so that a message can be set first, and
 * replaced by one of 0 bytes in the end.
 */
void cntk_reader_failure_set_message(cntk_reader_failure *failure,
                                     const char *message,
                                     size_t length);

/**
 * Adds an object that the error carries (cntk_reader_error_get_cause), such as an exception. `finalizer`, which may be
 * NULL, is called with it by any thread when it is not needed any more.
 */
void cntk_reader_failure_set_cause(cntk_reader_failure *failure,
                                   void *cause,
                                   cntk_reader_finalizer finalizer);

/**
 * Has a file system open all data files whose paths begin with a scheme and "://", from now on and in the whole process: a
 * path `s3://bucket/train.ctf` in a configuration is opened by the file system that is mounted for "s3". It takes the place
 * of an earlier one for this scheme. The table is copied. `system` may be NULL: paths with this scheme are then ordinary
 * paths again. Files that are open stay with the file system that has opened them.
 *
 * The scheme is UTF-8, `length` bytes or CNTK_READER_NUL_TERMINATED: a letter, and then letters, digits, '+', '-' and '.'. May be
 * called from any thread.
 */
cntk_reader_status cntk_reader_file_system_mount(const char *scheme,
                                                 size_t length,
                                                 const cntk_reader_file_system *system,
                                                 cntk_reader_error **error);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* CNTK_READER_H */
