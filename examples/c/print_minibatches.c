/*
 * print_minibatches: prints the first minibatches of a file in CNTK's text format, in plain C11.
 *
 *   print_minibatches [-n MINIBATCHES] [-m SAMPLES] FILE.ctf NAME:DIM:dense|sparse ...
 *   print_minibatches [-n MINIBATCHES] [-m SAMPLES] CONFIGURATION
 *
 * Example: print_minibatches -n 2 -m 4 digits.train.ctf labels:10:sparse features:64:dense
 */

#include <cntk_reader.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program with the error message if a call has failed. Takes the error's address, because
   its value might be evaluated before the call, another argument, has written it. */
static void check(cntk_reader_status status, cntk_reader_error** error) {
  if (status == CNTK_READER_STATUS_OK) return;
  fprintf(stderr, "print_minibatches: %s\n", cntk_reader_error_get_text(*error));
  cntk_reader_error_free(*error);
  exit(1);
}

static void usage(void) {
  fprintf(stderr,
          "usage: print_minibatches [-n MINIBATCHES] [-m SAMPLES] FILE NAME:DIM:dense|sparse ...\n"
          "       print_minibatches [-n MINIBATCHES] [-m SAMPLES] CONFIGURATION\n");
  exit(2);
}

/* Returns a configuration for a text file with these streams; the caller frees it. */
static char* write_configuration(const char* file, char** streams, int count) {
  size_t size = strlen(file) + 512;
  size_t used;
  char* text;
  int i;
  for (i = 0; i < count; ++i) size += strlen(streams[i]) + 64;
  text = malloc(size);
  if (text == NULL) exit(1);
  used = (size_t)snprintf(text, size,
                          "randomize = false\n"
                          "deserializers = ( [ type = \"CNTKTextFormatDeserializer\"\n"
                          "  module = \"CNTKTextFormatReader\"\n  file = \"%s\"\n  input = [\n",
                          file);
  for (i = 0; i < count; ++i) {
    char name[128], format[16];
    unsigned dim;
    if (sscanf(streams[i], "%127[^:]:%u:%15s", name, &dim, format) != 3) usage();
    used += (size_t)snprintf(text + used, size - used, "    %s = [ dim = %u ; format = \"%s\" ]\n", name, dim,
                             format);
  }
  snprintf(text + used, size - used, "  ]\n] )\n");
  return text;
}

static double value_at(const cntk_reader_minibatch_stream* stream, size_t index) {
  return stream->element == CNTK_READER_ELEMENT_FLOAT ? (double)((const float*)stream->values)[index]
                                                      : ((const double*)stream->values)[index];
}

/* Prints the values of a column: all of them, or index:value for each stored one. */
static void print_column(const cntk_reader_minibatch_stream* stream, size_t column) {
  if (stream->storage == CNTK_READER_STORAGE_SPARSE_CSC) {
    int32_t i;
    for (i = stream->column_offsets[column]; i < stream->column_offsets[column + 1]; ++i)
      printf(" %" PRId32 ":%g", stream->indices[i], value_at(stream, (size_t)i));
  } else {
    size_t row;
    for (row = 0; row < stream->sample_size; ++row)
      printf(" %g", value_at(stream, column * stream->sample_size + row));
  }
}

/* Prints the steps of a sequence that lie in this minibatch. */
static void print_sequence(const cntk_reader_minibatch* minibatch, const cntk_reader_minibatch_stream* stream,
                           const cntk_reader_record* record) {
  const uint64_t begin = record->begin < 0 ? 0 : (uint64_t)record->begin;
  const uint64_t end = record->end < stream->steps ? record->end : stream->steps;
  char key[64];
  size_t length;
  uint64_t step;
  cntk_reader_error* error;
  check(cntk_reader_minibatch_get_key_text(minibatch, (size_t)record->sequence, key, sizeof key, &length,
                                           &error),
        &error);
  for (step = begin; step < end; ++step) {
    printf("    sequence %s, step %" PRIu64 ":", key, step);
    print_column(stream, (size_t)(step * stream->lanes + record->lane));
    printf("\n");
  }
}

static void print_minibatch(const cntk_reader* reader, const cntk_reader_minibatch* minibatch,
                            size_t streams) {
  cntk_reader_error* error;
  size_t i, r;
  for (i = 0; i < streams; ++i) {
    cntk_reader_stream_info info = {.struct_size = sizeof info};
    cntk_reader_minibatch_stream stream = {.struct_size = sizeof stream};
    check(cntk_reader_stream_describe(reader, i, &info, &error), &error);
    check(cntk_reader_minibatch_stream_describe(minibatch, i, &stream, &error), &error);
    printf("  %s: %zu samples of %zu values in %zu sequences\n", info.name, stream.samples,
           stream.sample_size, stream.sequences);
    for (r = 0; r < stream.record_count; ++r)
      if (stream.records[r].sequence != CNTK_READER_GAP)
        print_sequence(minibatch, &stream, &stream.records[r]);
  }
}

int main(int argc, char** argv) {
  unsigned long minibatches = 3, i;
  cntk_reader_source source = CNTK_READER_SOURCE_INIT;
  cntk_reader_epoch epoch = CNTK_READER_EPOCH_INIT;
  char* configuration = NULL;
  cntk_reader_error* error;
  cntk_reader* reader;
  int first = 1;

  epoch.minibatch_size = 8;
  epoch.sweeps = 1;
  for (; first + 1 < argc && argv[first][0] == '-'; first += 2) {
    const unsigned long number = strtoul(argv[first + 1], NULL, 10);
    if (strcmp(argv[first], "-n") == 0)
      minibatches = number;
    else if (strcmp(argv[first], "-m") == 0)
      epoch.minibatch_size = number;
    else
      usage();
  }
  if (first >= argc || argv[first][0] == '-') usage();

  if (first + 1 == argc)
    source.file = argv[first];
  else
    source.text = configuration = write_configuration(argv[first], argv + first + 1, argc - first - 1);
  check(cntk_reader_open(&source, &reader, &error), &error);
  free(configuration);
  check(cntk_reader_epoch_start(reader, &epoch, &error), &error);

  for (i = 0; i < minibatches; ++i) {
    const cntk_reader_minibatch* minibatch;
    cntk_reader_minibatch_info info = {.struct_size = sizeof info};
    cntk_reader_outcome outcome;
    check(cntk_reader_minibatch_next(reader, CNTK_READER_NO_TIMEOUT, &minibatch, &outcome, &error), &error);
    if (outcome == CNTK_READER_OUTCOME_END_OF_EPOCH) break;
    check(cntk_reader_minibatch_describe(minibatch, &info, &error), &error);
    printf("minibatch %lu%s%s\n", i, info.end_of_sweep ? ", end of sweep" : "",
           info.end_of_epoch ? ", end of epoch" : "");
    print_minibatch(reader, minibatch, info.stream_count);
    cntk_reader_minibatch_release(minibatch);
  }
  cntk_reader_free(reader);
  return 0;
}
