/*
 * cntk_reader_host.h: functions for modules that replace those of CNTK.
 *
 * This file is generated from the library's source (cargo xtask header). Do not edit it.
 *
 * This interface is not stable: functions, types and their meaning may change with each version,
 * and the ABI number does not cover them. Link the library statically, in the version that the
 * header came with. Programs that read data only need cntk_reader.h or cntk_reader.hpp. The rules
 * of cntk_reader.h on ownership, errors, threads and strings apply here, too.
 *
 *     handle                    returned by                             released by
 *     cntk_reader               cntk_reader_host_open                   cntk_reader_free
 *     cntk_reader_keys          cntk_reader_keys_retain                 cntk_reader_keys_release
 *     cntk_reader_section       cntk_reader_section_create, _open_...   cntk_reader_section_free
 *     cntk_reader_deserializer  cntk_reader_deserializer_open           cntk_reader_deserializer_free
 *     cntk_reader_chunk         cntk_reader_deserializer_load_chunk     cntk_reader_chunk_free
 *     cntk_reader_decoded       cntk_reader_chunk_decode_sequence       cntk_reader_decoded_free
 *     cntk_reader_fetched       cntk_reader_chunk_fetch_sequence        cntk_reader_fetched_free
 *     cntk_reader_transform     cntk_reader_transform_open              cntk_reader_transform_free
 *     cntk_reader_transformed   cntk_reader_transform_apply             cntk_reader_transformed_free
 */


#ifndef CNTK_READER_HOST_H
#define CNTK_READER_HOST_H

#include "cntk_reader.h"

/** Initial value of a cntk_reader_host_source. The section must be set. */
#define CNTK_READER_HOST_SOURCE_INIT {sizeof(cntk_reader_host_source), NULL, 0, 0, NULL, NULL}

/** Initial value of a cntk_reader_corpus: keys are numbers. */
#define CNTK_READER_CORPUS_INIT {sizeof(cntk_reader_corpus), 1, 0, NULL, NULL, 0, 0}


/**
 * Result of loading a sequence.
 */
typedef enum {
  /**
   * The sequence has data.
   */
  CNTK_READER_PRESENCE_PRESENT = 0,
  /**
   * The sequence was left out, and already counted as an error.
   */
  CNTK_READER_PRESENCE_SKIPPED = 1,
  /**
   * The sequence is invalid: to be left out and counted as an error.
   */
  CNTK_READER_PRESENCE_INVALID = 2,
} cntk_reader_presence;

/**
 * The CNTK reader that a section describes.
 */
typedef enum {
  /**
   * Composite reader with `deserializers` (CompositeDataReader).
   */
  CNTK_READER_SECTION_KIND_COMPOSITE = 0,
  /**
   * Reader of one text file (CNTKTextFormatReader).
   */
  CNTK_READER_SECTION_KIND_TEXT = 1,
  /**
   * Reader of one binary file (CNTKBinaryReader).
   */
  CNTK_READER_SECTION_KIND_BINARY = 2,
  /**
   * Reader of speech features and labels in sections of its own (HTKDeserializers,
   * HTKMLFReader).
   */
  CNTK_READER_SECTION_KIND_HTK = 3,
  /**
   * Reader of images and labels in sections of its own (ImageReader).
   */
  CNTK_READER_SECTION_KIND_IMAGE = 4,
} cntk_reader_section_kind;

/**
 * Releases of CNTK that read the same data differently.
 */
typedef enum {
  /**
   * CNTK 2.0 to 2.7.
   */
  CNTK_READER_RELEASE_CURRENT = 0,
  /**
   * CNTK 2.0 beta 12 and beta 15: minibatches end with the epoch, workers count the sequences of
   * all workers, several sequences may have the same key, and text files are parsed more
   * strictly.
   */
  CNTK_READER_RELEASE_BETA = 1,
} cntk_reader_release;

/**
 * The data of a chunk's sequences, from cntk_reader_deserializer_load_chunk. It may outlive the
 * deserializer.
 *
 * Threads: immutable, may be shared.
 */
typedef struct cntk_reader_chunk cntk_reader_chunk;

/**
 * A sequence's decoded data in one stream: plain numbers in separate memory. Comes from
 * cntk_reader_chunk_decode_sequence; the caller frees it with cntk_reader_decoded_free.
 *
 * Threads: immutable, may be shared.
 */
typedef struct cntk_reader_decoded cntk_reader_decoded;

/**
 * A source of sequences: its streams, its list of chunks, and their data. Open it with
 * cntk_reader_deserializer_open, free it with cntk_reader_deserializer_free.
 *
 * Threads: may be shared; any thread may load any chunk. Fork: belongs to the process that opened
 * it.
 */
typedef struct cntk_reader_deserializer cntk_reader_deserializer;

/**
 * A sequence that was fetched from its chunk: an image is read and decoded. Comes from
 * cntk_reader_chunk_fetch_sequence; the caller frees it with cntk_reader_fetched_free. It may
 * outlive the chunk.
 *
 * Threads: immutable, may be shared.
 */
typedef struct cntk_reader_fetched cntk_reader_fetched;

/**
 * The mapping of sequence keys to numbers, shared by all deserializers of a reader. A factory gets
 * it with its request (cntk_reader_request), and adds a reference to keep it.
 *
 * Threads: may be shared; references are counted atomically.
 */
typedef struct cntk_reader_keys cntk_reader_keys;

/**
 * A section of a configuration: keys with their raw text, and the enclosing section. For hosts
 * that have parsed CNTK's configuration language themselves; other programs open a reader from
 * text.
 *
 * Threads: immutable, may be shared.
 */
typedef struct cntk_reader_section cntk_reader_section;

/**
 * One of CNTK's image transforms. Open it with cntk_reader_transform_open, free it with
 * cntk_reader_transform_free.
 *
 * A random transform has one random engine per slot, which continues from image to image, as in
 * CNTK 2.7.
 *
 * Threads: may be shared; images of different slots may be transformed concurrently.
 */
typedef struct cntk_reader_transform cntk_reader_transform;

/**
 * The result of a transform, from cntk_reader_transform_apply or cntk_reader_transform_apply_next.
 * The caller frees it with cntk_reader_transformed_free. It may outlive the transform.
 *
 * Threads: immutable, may be shared.
 */
typedef struct cntk_reader_transformed cntk_reader_transformed;

/**
 * A key of a section with its raw text: brackets, comments and `$name$` kept, outer quotes
 * removed. UTF-8; a length may be CNTK_READER_NUL_TERMINATED.
 */
typedef struct {
  /**
   * The key.
   */
  const char *key;
  /**
   * Bytes of the key.
   */
  size_t key_length;
  /**
   * The raw text.
   */
  const char *text;
  /**
   * Bytes of the text.
   */
  size_t text_length;
  /**
   * 1 if the text is a literal value, in which comments, brackets and `$name$` have no meaning;
   * else 0.
   */
  uint32_t literal;
  /**
   * Reserved; 0.
   */
  uint32_t reserved;
} cntk_reader_section_entry;

/**
 * A request to a factory. Its pointers are valid until the callback returns.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_request), set by the library.
   */
  size_t struct_size;
  /**
   * The deserializer's section, with the keys that the reader adds: `frameMode`, `precision`,
   * `traceLevel`.
   */
  const cntk_reader_section *section;
  /**
   * Its `type`: UTF-8, `type_length` bytes.
   */
  const char *type_name;
  /**
   * Bytes of the type.
   */
  size_t type_length;
  /**
   * The mapping of keys to numbers in this reader.
   */
  const cntk_reader_keys *keys;
  /**
   * 1 for the reader's first deserializer, which determines chunks and order; else 0.
   */
  uint32_t is_primary;
  /**
   * 1 if `list_sequences` must list its sequences (or `find_sequence` find them); 0 if the
   * section says `composable = false`, and `load_chunk` lists them.
   */
  uint32_t is_composable;
} cntk_reader_request;

/**
 * Creates a deserializer: fills in a table whose size is set and whose other members are zero.
 * Returns 0, or a nonzero number on failure.
 */
typedef int32_t (*cntk_reader_make_deserializer)(void *userdata,
                                                 const cntk_reader_request *request,
                                                 cntk_reader_user_deserializer *made,
                                                 cntk_reader_failure *failure);

/**
 * The source of a host's reader: a section of a configuration that the host has parsed.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_host_source).
   */
  size_t struct_size;
  /**
   * The section, which is copied.
   */
  const cntk_reader_section *section;
  /**
   * The CNTK reader that the section describes: a cntk_reader_section_kind.
   */
  uint32_t section_kind;
  /**
   * The release of CNTK that the section is for: a cntk_reader_release.
   */
  uint32_t release;
  /**
   * Creates the deserializers that this library does not have, and the image deserializers with
   * transforms whose `module` this library does not have; or NULL. Called in the configuration's
   * order while the reader is opened.
   */
  cntk_reader_make_deserializer make;
  /**
   * The first argument of `make`.
   */
  void *userdata;
} cntk_reader_host_source;

/**
 * Maps a textual sequence key (`length` bytes) to a number. Writes the number and returns 0, or
 * returns a nonzero number on failure. Called while the deserializer is opened, on any thread but
 * one at a time, in order of first appearance.
 */
typedef int32_t (*cntk_reader_number_key)(void *userdata, const char *text, size_t length, uint64_t *number);

/**
 * The context of a deserializer: how its reader maps sequence keys to numbers, and its place among
 * the deserializers. Initialize with CNTK_READER_CORPUS_INIT: keys are numbers, and it is not the
 * first deserializer.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_corpus).
   */
  size_t struct_size;
  /**
   * 1 if keys are numbers in the data.
   */
  uint32_t numeric_keys;
  /**
   * 1 if textual keys are mapped to numbers by CNTK's hash.
   */
  uint32_t hash_keys;
  /**
   * First argument of `number`. It must stay valid as long as the deserializer.
   */
  void *userdata;
  /**
   * Maps textual keys to numbers. NULL: they are numbered in order of first appearance.
   */
  cntk_reader_number_key number;
  /**
   * 1 if it is the reader's first deserializer, which determines the order of the sequences.
   * Labels, lattices and repeated vectors of speech cannot be.
   */
  uint32_t is_primary;
  /**
   * Reserved; 0.
   */
  uint32_t reserved;
} cntk_reader_corpus;

/**
 * Description of a deserializer.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_deserializer_info), set by the caller.
   */
  size_t struct_size;
  /**
   * Number of streams.
   */
  size_t stream_count;
  /**
   * Number of chunks.
   */
  size_t chunk_count;
  /**
   * 1 if each sequence has a single sample, which stands for every sample of the sequence with
   * the same key in the reader's first stream (`expandToUtterance`).
   */
  uint32_t is_expanded;
  /**
   * Reserved; 0.
   */
  uint32_t reserved;
} cntk_reader_deserializer_info;

/**
 * Size of a chunk.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_chunk_info), set by the caller.
   */
  size_t struct_size;
  /**
   * Samples in all its sequences.
   */
  uint64_t samples;
  /**
   * Number of its sequences.
   */
  uint64_t sequences;
} cntk_reader_chunk_info;

/**
 * A sequence's data in one stream. The pointers are valid as long as the chunk, or as the
 * cntk_reader_decoded that came with them.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_sequence), set by the caller.
   */
  size_t struct_size;
  /**
   * Whether the sequence has data.
   */
  cntk_reader_presence presence;
  /**
   * Number of samples in this stream.
   */
  uint32_t samples;
  /**
   * The values, of the stream's element type, possibly unaligned. Dense: `samples` times the
   * size of a sample. Sparse: the stored values, sample by sample.
   */
  const void *values;
  /**
   * Number of values.
   */
  size_t value_count;
  /**
   * Sparse: the index of each value within its sample, possibly unaligned. Dense: NULL.
   */
  const int32_t *indices;
  /**
   * Sparse: samples + 1 ascending numbers. Sample s has the values from
   * `sample_offsets[s] - sample_offsets[0]` up to, but not including,
   * `sample_offsets[s + 1] - sample_offsets[0]`. Dense: NULL.
   */
  const uint32_t *sample_offsets;
} cntk_reader_sequence;

/**
 * An image. In an output, the values are borrowed from the handle that was queried, or that came
 * with it.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_image), set by the caller.
   */
  size_t struct_size;
  /**
   * The `width` * `height` * `channels` values, interleaved: row by row with the channels of a
   * pixel next to each other. The channels of a color image are blue, green and red. Possibly
   * unaligned.
   */
  const void *values;
  /**
   * Width in pixels, at least 1.
   */
  uint32_t width;
  /**
   * Height in pixels, at least 1.
   */
  uint32_t height;
  /**
   * Values per pixel, at least 1.
   */
  uint32_t channels;
  /**
   * Type of the values: a cntk_reader_element, `UINT8`, `FLOAT` or `DOUBLE`.
   */
  uint32_t element;
  /**
   * 1 if the values are planar as `Transpose` makes them, channel by channel, each row by row;
   * else 0.
   */
  uint32_t is_planar;
  /**
   * Whether there is an image: a cntk_reader_presence. If there is none, only `struct_size` and
   * this member are meaningful.
   */
  uint32_t presence;
} cntk_reader_image;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Creates a section. `path` (`path_length` bytes, or CNTK_READER_NUL_TERMINATED) is its name in
 * messages, such as "global:reader". `parent` is the enclosing section, in which missing keys are
 * looked up, or NULL. Everything is copied. The caller frees the section with
 * cntk_reader_section_free.
 */
cntk_reader_status cntk_reader_section_create(const char *path,
                                              size_t path_length,
                                              const cntk_reader_section_entry *entries,
                                              size_t count,
                                              const cntk_reader_section *parent,
                                              cntk_reader_section **section,
                                              cntk_reader_error **error);

/**
 * Frees a section. NULL is allowed. Readers that were opened from it, and sections with it as
 * parent, are not affected.
 */
void cntk_reader_section_free(cntk_reader_section *section);

/**
 * Writes a section's name in messages: NUL-terminated if it fits into `capacity` bytes. `length`
 * is set to its full length. `text` may be NULL if `capacity` is 0.
 */
cntk_reader_status cntk_reader_section_get_path(const cntk_reader_section *section,
                                                char *text,
                                                size_t capacity,
                                                size_t *length,
                                                cntk_reader_error **error);

/**
 * Lists the keys of a section with their raw text, ordered case-insensitively: writes the first
 * `capacity` of them, and their total number to `count`. Pointers are valid as long as the
 * section. `entries` may be NULL if `capacity` is 0.
 */
cntk_reader_status cntk_reader_section_list_entries(const cntk_reader_section *section,
                                                    cntk_reader_section_entry *entries,
                                                    size_t capacity,
                                                    size_t *count,
                                                    cntk_reader_error **error);

/**
 * Opens the section that is the value of a key of this one. `*child` is NULL if there is no such
 * key. The caller frees it.
 */
cntk_reader_status cntk_reader_section_open_child(const cntk_reader_section *section,
                                                  const char *key,
                                                  size_t key_length,
                                                  cntk_reader_section **child,
                                                  cntk_reader_error **error);

/**
 * Opens element `index`, counted from 0, of the list of sections `( [ ... ] : [ ... ] )` that is
 * the value of a key of this one. `*element` is NULL past the last one. The caller frees it.
 */
cntk_reader_status cntk_reader_section_open_element(const cntk_reader_section *section,
                                                    const char *key,
                                                    size_t key_length,
                                                    size_t index,
                                                    cntk_reader_section **element,
                                                    cntk_reader_error **error);

/**
 * Reads a Boolean from a key of a section or of an enclosing one: 1 or 0. If the key is absent,
 * the value is `fallback`.
 */
cntk_reader_status cntk_reader_section_get_flag(const cntk_reader_section *section,
                                                const char *key,
                                                size_t key_length,
                                                uint32_t fallback,
                                                uint32_t *value,
                                                cntk_reader_error **error);

/**
 * Adds a reference, to be released with cntk_reader_keys_release. NULL is allowed.
 */
void cntk_reader_keys_retain(const cntk_reader_keys *keys);

/**
 * Releases a reference that cntk_reader_keys_retain has added. NULL is allowed. May be called from
 * any thread.
 */
void cntk_reader_keys_release(const cntk_reader_keys *keys);

/**
 * Gets whether keys are numbers in the data, and whether textual keys are mapped to numbers by
 * CNTK's hash: 1 or 0 each.
 */
cntk_reader_status cntk_reader_keys_describe(const cntk_reader_keys *keys,
                                             uint32_t *numeric,
                                             uint32_t *hashed,
                                             cntk_reader_error **error);

/**
 * Gets the number of a key (`length` bytes, or CNTK_READER_NUL_TERMINATED). A new text gets the
 * next number. If keys are numbers, it is the number that the key begins with.
 */
cntk_reader_status cntk_reader_keys_get_number(const cntk_reader_keys *keys,
                                               const char *key,
                                               size_t length,
                                               uint64_t *number,
                                               cntk_reader_error **error);

/**
 * Writes the text of a key by its number, as CNTK shows it: UTF-8, truncated to `capacity` bytes
 * including a NUL. `length` is set to its full length in bytes without the NUL. `text` may be NULL
 * if `capacity` is 0.
 */
cntk_reader_status cntk_reader_keys_get_text(const cntk_reader_keys *keys,
                                             uint64_t number,
                                             char *text,
                                             size_t capacity,
                                             size_t *length,
                                             cntk_reader_error **error);

/**
 * Opens a reader for a host, like cntk_reader_open for a program. The caller owns the reader and
 * frees it with cntk_reader_free.
 */
cntk_reader_status cntk_reader_host_open(const cntk_reader_host_source *source,
                                         cntk_reader **reader,
                                         cntk_reader_error **error);

/**
 * Opens a deserializer of this library, and opens and indexes its file. `section` is an element of
 * `deserializers` with the keys that CNTK's composite reader adds to it. `corpus` may be NULL:
 * keys are numbers.
 *
 * `type_name` (`type_length` bytes, or CNTK_READER_NUL_TERMINATED) is one of:
 *
 * - "CNTKTextFormatDeserializer";
 * - "CNTKBinaryFormatDeserializer", whose keys are the ordinals of sequences in the file;
 * - for speech "HTKFeatureDeserializer", "HTKMLFDeserializer", "HTKMLFBinaryDeserializer" or
 *   "LatticeDeserializer", whose chunks are read with cntk_reader_chunk_decode_sequence;
 * - for images "ImageDeserializer" or "Base64ImageDeserializer", whose chunks are read with
 *   cntk_reader_chunk_fetch_sequence.
 *
 * If `frameMode` is true, features and labels of speech list each frame as a sequence. Images are
 * not transformed; use cntk_reader_transform_apply.
 */
cntk_reader_status cntk_reader_deserializer_open(const char *type_name,
                                                 size_t type_length,
                                                 const cntk_reader_section *section,
                                                 const cntk_reader_corpus *corpus,
                                                 cntk_reader_deserializer **deserializer,
                                                 cntk_reader_error **error);

/**
 * Frees a deserializer. NULL is allowed. Its chunks stay valid. In the child of a fork no memory
 * is freed.
 */
void cntk_reader_deserializer_free(cntk_reader_deserializer *deserializer);

/**
 * Describes a deserializer. `info->struct_size` must be set.
 */
cntk_reader_status cntk_reader_deserializer_describe(const cntk_reader_deserializer *deserializer,
                                                     cntk_reader_deserializer_info *info,
                                                     cntk_reader_error **error);

/**
 * Describes stream `index`, counted from 0. `info->struct_size` must be set.
 */
cntk_reader_status cntk_reader_deserializer_describe_stream(const cntk_reader_deserializer *deserializer,
                                                            size_t index,
                                                            cntk_reader_stream_info *info,
                                                            cntk_reader_error **error);

/**
 * Describes chunk `chunk`, counted from 0. `info->struct_size` must be set.
 */
cntk_reader_status cntk_reader_deserializer_describe_chunk(const cntk_reader_deserializer *deserializer,
                                                           uint32_t chunk,
                                                           cntk_reader_chunk_info *info,
                                                           cntk_reader_error **error);

/**
 * Lists the sequences of a chunk in the order of the data: writes the first `capacity` of them,
 * and their total number to `count`. `sequences` may be NULL if `capacity` is 0.
 */
cntk_reader_status cntk_reader_deserializer_list_sequences(const cntk_reader_deserializer *deserializer,
                                                           uint32_t chunk,
                                                           cntk_reader_sequence_info *sequences,
                                                           size_t capacity,
                                                           size_t *count,
                                                           cntk_reader_error **error);

/**
 * Finds the first sequence with a key. Sets `found` to 1 and writes the sequence, or sets `found`
 * to 0.
 */
cntk_reader_status cntk_reader_deserializer_find_sequence(const cntk_reader_deserializer *deserializer,
                                                          uint64_t key,
                                                          uint32_t *found,
                                                          cntk_reader_sequence_info *sequence,
                                                          cntk_reader_error **error);

/**
 * Finds the sequence that belongs to `of`, a sequence of the reader's first deserializer: the
 * first one with its key or, in frame mode, the frame of that sequence with the same number. Sets
 * `found` to 1 and writes the sequence, or sets `found` to 0. A frame past the end of labels is
 * found, but has an index that no sequence of the chunk has, and is invalid. A frame past the end
 * of features is an error.
 */
cntk_reader_status cntk_reader_deserializer_match_sequence(const cntk_reader_deserializer *deserializer,
                                                           const cntk_reader_sequence_info *of,
                                                           uint32_t *found,
                                                           cntk_reader_sequence_info *sequence,
                                                           cntk_reader_error **error);

/**
 * Loads a chunk; the caller frees it with cntk_reader_chunk_free. Errors in the data count against
 * the deserializer's limit in the order of these calls.
 */
cntk_reader_status cntk_reader_deserializer_load_chunk(const cntk_reader_deserializer *deserializer,
                                                       uint32_t chunk,
                                                       cntk_reader_chunk **loaded,
                                                       cntk_reader_error **error);

/**
 * Gets a sequence's data in one stream, without a copy. `sequence->struct_size` must be set. Fails
 * if the chunk stores the data encoded, as features and labels of speech are: use
 * cntk_reader_chunk_decode_sequence. May be called from any thread.
 */
cntk_reader_status cntk_reader_chunk_get_sequence(const cntk_reader_chunk *chunk,
                                                  size_t stream,
                                                  uint32_t index,
                                                  cntk_reader_sequence *sequence,
                                                  cntk_reader_error **error);

/**
 * Gets a sequence's data in one stream as plain numbers: decodes frames, gives each sample its
 * context, and widens narrow numbers to the element type. Data that are already plain numbers are
 * not copied: `*decoded` is NULL, and `sequence` points into the chunk. Otherwise the caller owns
 * `*decoded`, whose data are valid until cntk_reader_decoded_free, even after the chunk is freed.
 * `sequence->struct_size` must be set. May be called from any thread.
 */
cntk_reader_status cntk_reader_chunk_decode_sequence(const cntk_reader_chunk *chunk,
                                                     size_t stream,
                                                     uint32_t index,
                                                     cntk_reader_sequence *sequence,
                                                     cntk_reader_decoded **decoded,
                                                     cntk_reader_error **error);

/**
 * Frees decoded data. NULL is allowed. May be called from any thread.
 */
void cntk_reader_decoded_free(cntk_reader_decoded *decoded);

/**
 * Frees a chunk. NULL is allowed. May be called from any thread.
 */
void cntk_reader_chunk_free(cntk_reader_chunk *chunk);

/**
 * Fetches a sequence of a chunk of images: reads and decodes the image. The caller owns
 * `*fetched`. If an image cannot be decoded, the call succeeds, but the sequence has no data. May
 * be called from any thread, also by several at once.
 */
cntk_reader_status cntk_reader_chunk_fetch_sequence(const cntk_reader_chunk *chunk,
                                                    uint32_t index,
                                                    cntk_reader_fetched **fetched,
                                                    cntk_reader_error **error);

/**
 * Gets the data of a fetched sequence in a stream of numbers, such as labels.
 * `sequence->struct_size` must be set. If the sequence is unusable, its presence is
 * CNTK_READER_PRESENCE_INVALID in all streams.
 */
cntk_reader_status cntk_reader_fetched_get_sequence(const cntk_reader_fetched *fetched,
                                                    size_t stream,
                                                    cntk_reader_sequence *sequence,
                                                    cntk_reader_error **error);

/**
 * Gets the image of a fetched sequence. If the sequence is unusable, `image->presence` is
 * CNTK_READER_PRESENCE_INVALID. `image->struct_size` must be set. Fails if the stream has no
 * images.
 */
cntk_reader_status cntk_reader_fetched_get_image(const cntk_reader_fetched *fetched,
                                                 size_t stream,
                                                 cntk_reader_image *image,
                                                 cntk_reader_error **error);

/**
 * Frees a fetched sequence. NULL is allowed. May be called from any thread.
 */
void cntk_reader_fetched_free(cntk_reader_fetched *fetched);

/**
 * Opens a transform, and reads the files that its section names. `section` is an element of
 * `transforms` with the key `precision` ("float" or "double") that CNTK's composite reader adds.
 * `type_name` (`type_length` bytes, or CNTK_READER_NUL_TERMINATED) is "Crop", "Scale", "Color",
 * "Intensity", "Mean", "Transpose" or "Cast".
 */
cntk_reader_status cntk_reader_transform_open(const char *type_name,
                                              size_t type_length,
                                              const cntk_reader_section *section,
                                              cntk_reader_transform **transform,
                                              cntk_reader_error **error);

/**
 * Gets the element type that `Transpose` and `Cast` produce, which the section's `precision` sets:
 * a cntk_reader_element.
 */
cntk_reader_status cntk_reader_transform_get_element(const cntk_reader_transform *transform,
                                                     uint32_t *element,
                                                     cntk_reader_error **error);

/**
 * Gets the declared shape of samples after a transform. `before` has the `rank` dimensions before
 * it; a `rank` other than 3 means that they are unknown. Sets `known` to 1 and writes three
 * dimensions to `after`, or sets `known` to 0 if the shape depends on the data.
 */
cntk_reader_status cntk_reader_transform_get_shape(const cntk_reader_transform *transform,
                                                   const size_t *before,
                                                   size_t rank,
                                                   uint32_t *known,
                                                   size_t (*after)[3],
                                                   cntk_reader_error **error);

/**
 * Transforms an image. `slot` is its position in the minibatch. `copy` is its number, 0 to 9,
 * among the ten crops of an image (`multiViewCrop`), else 0. `image` is not changed. `result`
 * receives the description of the transformed image; `result->struct_size` must be set. The caller
 * owns `*transformed`, which owns the result's values.
 */
cntk_reader_status cntk_reader_transform_apply(const cntk_reader_transform *transform,
                                               uint32_t slot,
                                               uint32_t copy,
                                               const cntk_reader_image *image,
                                               cntk_reader_image *result,
                                               cntk_reader_transformed **transformed,
                                               cntk_reader_error **error);

/**
 * Transforms the result of another transform: for all transforms of a chain but the first. As in
 * CNTK 2.7, a crop is a view of the larger image, from which padding takes its border, so the
 * result may differ from transforming a copy of the values. `before` is not changed.
 * `result->struct_size` must be set. The caller owns `*transformed`, which owns the result's
 * values.
 */
cntk_reader_status cntk_reader_transform_apply_next(const cntk_reader_transform *transform,
                                                    uint32_t slot,
                                                    uint32_t copy,
                                                    const cntk_reader_transformed *before,
                                                    cntk_reader_image *result,
                                                    cntk_reader_transformed **transformed,
                                                    cntk_reader_error **error);

/**
 * Frees the result of a transform. NULL is allowed. May be called from any thread.
 */
void cntk_reader_transformed_free(cntk_reader_transformed *transformed);

/**
 * Frees a transform. NULL is allowed. Its results stay valid.
 */
void cntk_reader_transform_free(cntk_reader_transform *transform);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* CNTK_READER_HOST_H */
