/*
 * cntk_reader_host.h: functions for modules that take the place of CNTK's own.
 *
 * This file is generated from the library's source (cargo xtask header). Do not edit it.
 *
 * It has no promise of stability: functions, types and their meaning may change with each version, and the ABI number
 * does not cover them. Link the library statically, of the version that the header came with. Programs that read data
 * need cntk_reader.h or cntk_reader.hpp only. The rules of cntk_reader.h on ownership, errors, threads and strings hold
 * here too.
 *
 *     handle                    comes from                              is given up by
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

/** Initial value of a cntk_reader_host_source. The section has to be set. */
#define CNTK_READER_HOST_SOURCE_INIT {sizeof(cntk_reader_host_source), NULL, 0, 0, NULL, NULL}

/** Initial value of a cntk_reader_corpus: keys are numbers. */
#define CNTK_READER_CORPUS_INIT {sizeof(cntk_reader_corpus), 1, 0, NULL, NULL, 0, 0}


/**
 * What loading made of a sequence.
 */
typedef enum {
  /**
   * It has data.
   */
  CNTK_READER_PRESENCE_PRESENT = 0,
  /**
   * It was left out and counted as an error already.
   */
  CNTK_READER_PRESENCE_SKIPPED = 1,
  /**
   * It is invalid, to be left out and counted.
   */
  CNTK_READER_PRESENCE_INVALID = 2,
} cntk_reader_presence;

/**
 * Which of CNTK's readers a section describes.
 */
typedef enum {
  /**
   * The one with `deserializers` (CompositeDataReader).
   */
  CNTK_READER_SECTION_KIND_COMPOSITE = 0,
  /**
   * The one of one text file (CNTKTextFormatReader).
   */
  CNTK_READER_SECTION_KIND_TEXT = 1,
  /**
   * The one of one binary file (CNTKBinaryReader).
   */
  CNTK_READER_SECTION_KIND_BINARY = 2,
  /**
   * The one of features and labels of speech in sections of its own (HTKDeserializers, HTKMLFReader).
   */
  CNTK_READER_SECTION_KIND_HTK = 3,
  /**
   * The one of images and labels in sections of its own (ImageReader).
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
   * The betas 12 and 15 of CNTK 2.0: minibatches end where the epoch does, workers count sequences of all workers, several sequences may
   * have one key, and text files are read more strictly.
   */
  CNTK_READER_RELEASE_BETA = 1,
} cntk_reader_release;

/**
 * The data of a chunk's sequences. Comes from cntk_reader_deserializer_load_chunk, may outlive the deserializer.
 *
 * Threads: immutable, may be shared.
 */
typedef struct cntk_reader_chunk cntk_reader_chunk;

/**
 * The data of one sequence in one stream that had to be decoded: plain numbers in memory of their own. Comes from
 * cntk_reader_chunk_decode_sequence; the caller frees it with cntk_reader_decoded_free.
 *
 * Threads: immutable, may be shared.
 */
typedef struct cntk_reader_decoded cntk_reader_decoded;

/**
 * A source of sequences: streams, a table of chunks, and the chunks' data. Open it with
 * cntk_reader_deserializer_open, free it with cntk_reader_deserializer_free.
 *
 * Threads: may be shared; any thread may load any chunk. Fork: belongs to the process that opened it.
 */
typedef struct cntk_reader_deserializer cntk_reader_deserializer;

/**
 * The data of one sequence, which was fetched from its chunk: an image is read and decoded. Comes from
 * cntk_reader_chunk_fetch_sequence; the caller frees it with cntk_reader_fetched_free, also after the chunk.
 *
 * Threads: immutable, may be shared.
 */
typedef struct cntk_reader_fetched cntk_reader_fetched;

/**
 * How the keys of a reader's sequences become numbers, in all of its deserializers alike. A factory gets them with its
 * request (cntk_reader_request), and adds a reference to keep them.
 *
 * Threads: may be shared; references are counted atomically.
 */
typedef struct cntk_reader_keys cntk_reader_keys;

/**
 * A section of a configuration: keys with their raw texts, and the section around it. For hosts that have parsed
 * CNTK's configuration language themselves; others open a reader from text.
 *
 * Threads: immutable, may be shared.
 */
typedef struct cntk_reader_section cntk_reader_section;

/**
 * One of CNTK's transforms of images. Open it with cntk_reader_transform_open, free it with cntk_reader_transform_free.
 *
 * A random transform has one random engine for each slot, as in CNTK 2.7, which runs on from image to image.
 *
 * Threads: may be shared; images of different slots may be transformed at once.
 */
typedef struct cntk_reader_transform cntk_reader_transform;

/**
 * The image that a transform has made. Comes from cntk_reader_transform_apply or cntk_reader_transform_apply_next; the caller
 * frees it with cntk_reader_transformed_free, also after the transform.
 *
 * Threads: immutable, may be shared.
 */
typedef struct cntk_reader_transformed cntk_reader_transformed;

/**
 * One key of a section and its raw text: brackets, comments and `$name$` kept, outer quotes removed. UTF-8; a length
 * may be CNTK_READER_NUL_TERMINATED.
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
   * 1 if the text is the value as it is: comments, brackets and `$name$` in it have no meaning. Else 0.
   */
  uint32_t literal;
  /**
   * 0.
   */
  uint32_t reserved;
} cntk_reader_section_entry;

/**
 * What a factory is to make. All of it lives until the callback returns.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_request), set by the library.
   */
  size_t struct_size;
  /**
   * The deserializer's section, with the keys that the reader puts into it: `frameMode`, `precision`, `traceLevel`.
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
   * How keys become numbers in this reader.
   */
  const cntk_reader_keys *keys;
  /**
   * 1 if it is the reader's first deserializer, whose chunks and order count; else 0.
   */
  uint32_t is_primary;
  /**
   * 1 if list_sequences has to list its sequences (or find_sequence to find them), 0 if the section says
   * `composable = false`: load_chunk lists them then.
   */
  uint32_t is_composable;
} cntk_reader_request;

/**
 * Makes a deserializer: fills a table in, whose size is set and whose other members are zero. Returns 0, or another number
 * if it fails.
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
   * The section. It is copied.
   */
  const cntk_reader_section *section;
  /**
   * A cntk_reader_section_kind: which of CNTK's readers the section describes.
   */
  uint32_t section_kind;
  /**
   * A cntk_reader_release: the release of CNTK that the section came from.
   */
  uint32_t release;
  /**
   * Makes the deserializers that the section names and this library does not have, and the image
   * deserializers with transforms whose `module` this library does not have; or NULL. Called in
   * the configuration's order, before the reader is open.
   */
  cntk_reader_make_deserializer make;
  /**
   * The first argument of `make`.
   */
  void *userdata;
} cntk_reader_host_source;

/**
 * Numbers a textual sequence key (`length` bytes): writes the number and returns 0, or returns something else if that
 * is impossible. Called while the deserializer is opened, on any thread but on one at a time, in order of first
 * appearance.
 */
typedef int32_t (*cntk_reader_number_key)(void *userdata, const char *text, size_t length, uint64_t *number);

/**
 * What a deserializer knows of the reader that it belongs to: how sequence keys become numbers, and its place among the
 * deserializers. Initialize with CNTK_READER_CORPUS_INIT: keys are numbers, other deserializers come first.
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
   * 1 if textual keys are numbered by CNTK's hash of them.
   */
  uint32_t hash_keys;
  /**
   * What `number` is called with. It must stay valid as long as the deserializer.
   */
  void *userdata;
  /**
   * Numbers textual keys; NULL: in order of first appearance.
   */
  cntk_reader_number_key number;
  /**
   * 1 if it is the reader's first deserializer, whose sequences determine the order. Labels, lattices and repeated vectors
   * of speech cannot be.
   */
  uint32_t is_primary;
  /**
   * 0.
   */
  uint32_t reserved;
} cntk_reader_corpus;

/**
 * Numbers of streams and chunks of a deserializer.
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
   * 1 if each sequence has one sample that stands for each sample of the same key in the reader's first stream
   * (`expandToUtterance`).
   */
  uint32_t is_expanded;
  /**
   * 0.
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
   * Samples of all its sequences.
   */
  uint64_t samples;
  /**
   * Number of its sequences.
   */
  uint64_t sequences;
} cntk_reader_chunk_info;

/**
 * A sequence's data in one stream. The pointers live as long as the chunk, or as the cntk_reader_decoded that came with
 * them.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_sequence), set by the caller.
   */
  size_t struct_size;
  /**
   * Whether there are data.
   */
  cntk_reader_presence presence;
  /**
   * Samples in this stream.
   */
  uint32_t samples;
  /**
   * The values, of the stream's element type, not necessarily aligned. Dense: `samples` times the sample's size.
   * Sparse: the stored ones, sample after sample.
   */
  const void *values;
  /**
   * Number of values.
   */
  size_t value_count;
  /**
   * Sparse: the index of each value within its sample, not necessarily aligned. Dense: NULL.
   */
  const int32_t *indices;
  /**
   * Sparse: samples + 1 ascending numbers. Sample s has the values from `sample_offsets[s] - sample_offsets[0]` to
   * before `sample_offsets[s + 1] - sample_offsets[0]`. Dense: NULL.
   */
  const uint32_t *sample_offsets;
} cntk_reader_sequence;

/**
 * An image. As an output, its values are borrowed from the handle that was asked or that came with it.
 */
typedef struct {
  /**
   * sizeof(cntk_reader_image), set by the caller.
   */
  size_t struct_size;
  /**
   * The values: `width` times `height` times `channels`, row after row, in a row pixel after pixel, in a pixel channel after
   * channel. The channels of a color image are blue, green and red. Not necessarily aligned.
   */
  const void *values;
  /**
   * Columns, at least 1.
   */
  uint32_t width;
  /**
   * Rows, at least 1.
   */
  uint32_t height;
  /**
   * Values of a pixel, at least 1.
   */
  uint32_t channels;
  /**
   * Type of the values, a cntk_reader_element: `UINT8`, `FLOAT` or `DOUBLE`.
   */
  uint32_t element;
  /**
   * 1 if the values are in the order that `Transpose` makes: channel after channel, each row after row. Else 0.
   */
  uint32_t is_planar;
  /**
   * A cntk_reader_presence: whether there is an image. Without, only `struct_size` and this member have a meaning.
   */
  uint32_t presence;
} cntk_reader_image;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Makes a section. `path` is its name in messages ("global:reader"; `path_length` bytes, or
 * CNTK_READER_NUL_TERMINATED); `parent` is the section around it, where keys are looked up that this one lacks, or
 * NULL. Everything is copied. The caller frees the section with cntk_reader_section_free.
 */
cntk_reader_status cntk_reader_section_create(const char *path,
                                              size_t path_length,
                                              const cntk_reader_section_entry *entries,
                                              size_t count,
                                              const cntk_reader_section *parent,
                                              cntk_reader_section **section,
                                              cntk_reader_error **error);

/**
 * Frees a section. NULL is allowed. Readers that were opened from it, and sections that have it as parent, stay as they are.
 */
void cntk_reader_section_free(cntk_reader_section *section);

/**
 * Gives a section's name in messages: NUL-terminated if it fits into `capacity` bytes, and its length. `text` may be
 * NULL if `capacity` is 0.
 */
cntk_reader_status cntk_reader_section_get_path(const cntk_reader_section *section,
                                                char *text,
                                                size_t capacity,
                                                size_t *length,
                                                cntk_reader_error **error);

/**
 * Gives the keys of a section with their raw texts, ordered without regard to case: the first `capacity` of them, and
 * their number. Pointers live as long as the section. `entries` may be NULL if `capacity` is 0.
 */
cntk_reader_status cntk_reader_section_list_entries(const cntk_reader_section *section,
                                                    cntk_reader_section_entry *entries,
                                                    size_t capacity,
                                                    size_t *count,
                                                    cntk_reader_error **error);

/**
 * Opens the section that a key of this one has as its value, or gives NULL if there is no such key. The caller frees it.
 */
cntk_reader_status cntk_reader_section_open_child(const cntk_reader_section *section,
                                                  const char *key,
                                                  size_t key_length,
                                                  cntk_reader_section **child,
                                                  cntk_reader_error **error);

/**
 * Opens element `index`, from 0, of the list of sections that a key of this one has as its value: `( [ ... ] : [ ... ] )`.
 * Gives NULL past the last one. The caller frees it.
 */
cntk_reader_status cntk_reader_section_open_element(const cntk_reader_section *section,
                                                    const char *key,
                                                    size_t key_length,
                                                    size_t index,
                                                    cntk_reader_section **element,
                                                    cntk_reader_error **error);

/**
 * Reads a key of a section, or of one around it, as a truth value: 1 or 0. If it is absent, the value is `fallback`.
 */
cntk_reader_status cntk_reader_section_get_flag(const cntk_reader_section *section,
                                                const char *key,
                                                size_t key_length,
                                                uint32_t fallback,
                                                uint32_t *value,
                                                cntk_reader_error **error);

/**
 * Adds a reference, to be taken away with cntk_reader_keys_release. NULL is allowed.
 */
void cntk_reader_keys_retain(const cntk_reader_keys *keys);

/**
 * Takes a reference away that cntk_reader_keys_retain has added. NULL is allowed. May be called from any thread.
 */
void cntk_reader_keys_release(const cntk_reader_keys *keys);

/**
 * Gives whether keys are numbers in the data, and whether texts are numbered by CNTK's hash of them: 1 or 0 each.
 */
cntk_reader_status cntk_reader_keys_describe(const cntk_reader_keys *keys,
                                             uint32_t *numeric,
                                             uint32_t *hashed,
                                             cntk_reader_error **error);

/**
 * Gives the number of a key (`length` bytes, or CNTK_READER_NUL_TERMINATED). A text that is new gets the next one; where
 * keys are numbers, it is the number that the key begins with.
 */
cntk_reader_status cntk_reader_keys_get_number(const cntk_reader_keys *keys,
                                               const char *key,
                                               size_t length,
                                               uint64_t *number,
                                               cntk_reader_error **error);

/**
 * Gives the text of a key by its number, as CNTK shows it: UTF-8, as much of it as fits into `capacity` bytes, always with
 * a NUL if `capacity` is not 0; and its whole length in bytes without the NUL. `text` may be NULL if `capacity` is 0.
 */
cntk_reader_status cntk_reader_keys_get_text(const cntk_reader_keys *keys,
                                             uint64_t number,
                                             char *text,
                                             size_t capacity,
                                             size_t *length,
                                             cntk_reader_error **error);

/**
 * Opens a reader for a host, as cntk_reader_open does for a program. The caller owns the reader,
 * and frees it with cntk_reader_free.
 */
cntk_reader_status cntk_reader_host_open(const cntk_reader_host_source *source,
                                         cntk_reader **reader,
                                         cntk_reader_error **error);

/**
 * Opens a deserializer of this library from its section, an element of `deserializers` with the keys that CNTK's composite
 * reader adds to it; opens and indexes its file. `type_name` (`type_length` bytes, or CNTK_READER_NUL_TERMINATED) is its
 * type: "CNTKTextFormatDeserializer"; "CNTKBinaryFormatDeserializer", whose sequences have their ordinals in the file
 * as keys; one of speech: "HTKFeatureDeserializer", "HTKMLFDeserializer", "HTKMLFBinaryDeserializer",
 * "LatticeDeserializer", whose chunks are read with cntk_reader_chunk_decode_sequence; or one of images: "ImageDeserializer",
 * "Base64ImageDeserializer", whose chunks are read with cntk_reader_chunk_fetch_sequence. If `frameMode` is true, features
 * and labels of speech list each frame as a sequence. Images are not transformed: cntk_reader_transform_apply does that.
 * `corpus` may be NULL: keys are numbers.
 */
cntk_reader_status cntk_reader_deserializer_open(const char *type_name,
                                                 size_t type_length,
                                                 const cntk_reader_section *section,
                                                 const cntk_reader_corpus *corpus,
                                                 cntk_reader_deserializer **deserializer,
                                                 cntk_reader_error **error);

/**
 * Frees a deserializer. NULL is allowed. Chunks that came from it stay valid. In the child of a fork the memory is left
 * alone.
 */
void cntk_reader_deserializer_free(cntk_reader_deserializer *deserializer);

/**
 * Describes a deserializer as a whole. `info->struct_size` must be set.
 */
cntk_reader_status cntk_reader_deserializer_describe(const cntk_reader_deserializer *deserializer,
                                                     cntk_reader_deserializer_info *info,
                                                     cntk_reader_error **error);

/**
 * Describes stream `index`, from 0. `info->struct_size` must be set.
 */
cntk_reader_status cntk_reader_deserializer_describe_stream(const cntk_reader_deserializer *deserializer,
                                                            size_t index,
                                                            cntk_reader_stream_info *info,
                                                            cntk_reader_error **error);

/**
 * Describes a chunk, from 0. `info->struct_size` must be set.
 */
cntk_reader_status cntk_reader_deserializer_describe_chunk(const cntk_reader_deserializer *deserializer,
                                                           uint32_t chunk,
                                                           cntk_reader_chunk_info *info,
                                                           cntk_reader_error **error);

/**
 * Gives the sequences of a chunk in the order of the data: the first `capacity` of them, and their number. `sequences`
 * may be NULL if `capacity` is 0.
 */
cntk_reader_status cntk_reader_deserializer_list_sequences(const cntk_reader_deserializer *deserializer,
                                                           uint32_t chunk,
                                                           cntk_reader_sequence_info *sequences,
                                                           size_t capacity,
                                                           size_t *count,
                                                           cntk_reader_error **error);

/**
 * Looks for the first sequence with a key: writes 1 and the sequence, or 0 if there is none.
 */
cntk_reader_status cntk_reader_deserializer_find_sequence(const cntk_reader_deserializer *deserializer,
                                                          uint64_t key,
                                                          uint32_t *found,
                                                          cntk_reader_sequence_info *sequence,
                                                          cntk_reader_error **error);

/**
 * Looks for the sequence that belongs to `of`, a sequence of the reader's first deserializer: the first one with its key,
 * in frame mode the frame of that sequence with its number. Writes 1 and the sequence, or 0 if there is none. A frame past
 * the end of labels is found, but its index is no sequence of the chunk: it is invalid. A frame past the end of features
 * is an error.
 */
cntk_reader_status cntk_reader_deserializer_match_sequence(const cntk_reader_deserializer *deserializer,
                                                           const cntk_reader_sequence_info *of,
                                                           uint32_t *found,
                                                           cntk_reader_sequence_info *sequence,
                                                           cntk_reader_error **error);

/**
 * Loads a chunk; the caller frees it with cntk_reader_chunk_free. Errors in the data count against what the
 * deserializer tolerates, in the order of these calls.
 */
cntk_reader_status cntk_reader_deserializer_load_chunk(const cntk_reader_deserializer *deserializer,
                                                       uint32_t chunk,
                                                       cntk_reader_chunk **loaded,
                                                       cntk_reader_error **error);

/**
 * Gives a sequence's data in one stream, where they lie. `sequence->struct_size` must be set. Fails if the chunk stores them
 * encoded, as those of speech (features, labels): then call cntk_reader_chunk_decode_sequence. May be called from any
 * thread.
 */
cntk_reader_status cntk_reader_chunk_get_sequence(const cntk_reader_chunk *chunk,
                                                  size_t stream,
                                                  uint32_t index,
                                                  cntk_reader_sequence *sequence,
                                                  cntk_reader_error **error);

/**
 * Gives a sequence's data in one stream as plain numbers: frames are decoded, and each sample gets its context; small
 * numbers get their full size. What the chunk has as plain numbers is not copied: `*decoded` is NULL then, and `sequence`
 * points into the chunk. Else the caller owns `*decoded`, and its data live until cntk_reader_decoded_free, also without
 * the chunk. `sequence->struct_size` must be set. May be called from any thread.
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
 * Fetches a sequence of a chunk of images: reads and decodes the image. The caller owns `*fetched`. An image that cannot
 * be decoded is fetched as well, but has no data. May be called from any thread, also by several at once.
 */
cntk_reader_status cntk_reader_chunk_fetch_sequence(const cntk_reader_chunk *chunk,
                                                    uint32_t index,
                                                    cntk_reader_fetched **fetched,
                                                    cntk_reader_error **error);

/**
 * Gives the data of a fetched sequence in a stream of numbers, such as labels. `sequence->struct_size` must be set. All
 * streams of a sequence that cannot be used give CNTK_READER_PRESENCE_INVALID.
 */
cntk_reader_status cntk_reader_fetched_get_sequence(const cntk_reader_fetched *fetched,
                                                    size_t stream,
                                                    cntk_reader_sequence *sequence,
                                                    cntk_reader_error **error);

/**
 * Gives the image of a fetched sequence, or says that there is none: `image->presence` is CNTK_READER_PRESENCE_INVALID if the
 * sequence cannot be used. `image->struct_size` must be set. Fails if the stream has no images.
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
 * Opens a transform from its section, an element of `transforms` with the key `precision` ("float" or "double") that CNTK's
 * composite reader adds to it; reads the files that the section names. `type_name` (`type_length` bytes, or
 * CNTK_READER_NUL_TERMINATED) is its type: "Crop", "Scale", "Color", "Intensity", "Mean", "Transpose" or "Cast".
 */
cntk_reader_status cntk_reader_transform_open(const char *type_name,
                                              size_t type_length,
                                              const cntk_reader_section *section,
                                              cntk_reader_transform **transform,
                                              cntk_reader_error **error);

/**
 * Writes the type of the values that `Transpose` and `Cast` make, that of the section's `precision`: a cntk_reader_element.
 */
cntk_reader_status cntk_reader_transform_get_element(const cntk_reader_transform *transform,
                                                     uint32_t *element,
                                                     cntk_reader_error **error);

/**
 * Gives the declared shape of samples after a transform. `before` has the `rank` dimensions that are declared before it;
 * a `rank` other than 3 means that these are not known. Writes 1 to `known` and the three dimensions to `after`, which has
 * room for them, or 0 if the shape is known only from the data.
 */
cntk_reader_status cntk_reader_transform_get_shape(const cntk_reader_transform *transform,
                                                   const size_t *before,
                                                   size_t rank,
                                                   uint32_t *known,
                                                   size_t (*after)[3],
                                                   cntk_reader_error **error);

/**
 * Transforms an image. `slot` is its position in the minibatch, `copy` its number, 0 to 9, among the ten copies of one image
 * (`multiViewCrop`), else 0. `image` describes the image, which is not changed; `result->struct_size` must be set, and
 * `result` gets what became of it. The caller owns `*transformed`, which has the result's values.
 */
cntk_reader_status cntk_reader_transform_apply(const cntk_reader_transform *transform,
                                               uint32_t slot,
                                               uint32_t copy,
                                               const cntk_reader_image *image,
                                               cntk_reader_image *result,
                                               cntk_reader_transformed **transformed,
                                               cntk_reader_error **error);

/**
 * Transforms an image that another transform has made: cntk_reader_transform_apply for all transforms of a chain but the first
 * one. A crop is a view of the larger image, of which padding takes its border, as in CNTK 2.7; so the result may differ from
 * that for a copy of the values. `before` is not changed; `result->struct_size` must be set. The caller owns `*transformed`,
 * which has the result's values.
 */
cntk_reader_status cntk_reader_transform_apply_next(const cntk_reader_transform *transform,
                                                    uint32_t slot,
                                                    uint32_t copy,
                                                    const cntk_reader_transformed *before,
                                                    cntk_reader_image *result,
                                                    cntk_reader_transformed **transformed,
                                                    cntk_reader_error **error);

/**
 * Frees the image that a transform has made. NULL is allowed. May be called from any thread.
 */
void cntk_reader_transformed_free(cntk_reader_transformed *transformed);

/**
 * Frees a transform. NULL is allowed. Images that it has made stay valid.
 */
void cntk_reader_transform_free(cntk_reader_transform *transform);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* CNTK_READER_HOST_H */
