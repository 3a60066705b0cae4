/* The C header compiled as C: no warnings, and calls with invalid arguments return errors. */

#include <cntk_reader_host.h>
#include <stdio.h>
#include <string.h>

static int failures = 0;

#define EXPECT(condition)                                              \
  do {                                                                 \
    if (!(condition)) {                                                \
      fprintf(stderr, "line %d: %s is false\n", __LINE__, #condition); \
      ++failures;                                                      \
    }                                                                  \
  } while (0)

#define REFUSED CNTK_READER_STATUS_INVALID_ARGUMENT

/* Layouts that programs were compiled with must never change, except by growing at the end. */
_Static_assert(sizeof(cntk_reader_record) == 32, "record");
_Static_assert(sizeof(cntk_reader_configuration) == 56, "configuration");
_Static_assert(sizeof(cntk_reader_epoch) == 80, "epoch");
_Static_assert(sizeof(cntk_reader_state_entry) == 24, "state entry");
_Static_assert(sizeof(cntk_reader_stream_info) == 80, "stream info");
_Static_assert(sizeof(cntk_reader_minibatch_info) == 48, "minibatch info");
_Static_assert(sizeof(cntk_reader_minibatch_stream) == 168, "stream minibatch");
_Static_assert(sizeof(cntk_reader_error_info) == 80, "error info");
_Static_assert(sizeof(cntk_reader_source) == 104, "source");
_Static_assert(sizeof(cntk_reader_info) == 56, "info");
_Static_assert(sizeof(cntk_reader_member_info) == 48, "member info");
_Static_assert(sizeof(cntk_reader_progress) == 32, "progress");
_Static_assert(sizeof(cntk_reader_memory) == 32, "memory");
_Static_assert(sizeof(cntk_reader_conversion) == 96, "conversion");
_Static_assert(offsetof(cntk_reader_minibatch_stream, values) == 88, "values");
_Static_assert(offsetof(cntk_reader_epoch, samples) == 56, "samples");

static void test_null_arguments(void) {
  cntk_reader* reader = NULL;
  const cntk_reader_minibatch* minibatch = NULL;
  cntk_reader_buffer* buffer = NULL;
  cntk_reader_epoch epoch = CNTK_READER_EPOCH_INIT;
  cntk_reader_configuration configuration = CNTK_READER_CONFIGURATION_INIT;
  cntk_reader_source source = CNTK_READER_SOURCE_INIT;
  size_t number = 0;
  cntk_reader_outcome outcome;
  uint32_t ready = 0;
  EXPECT(cntk_reader_open(NULL, &reader, NULL) == REFUSED);
  cntk_reader_canceller* canceller = NULL;
  uint32_t ends = 1;
  EXPECT(cntk_reader_canceller_create(NULL, NULL) == REFUSED);
  EXPECT(cntk_reader_canceller_create(&canceller, NULL) == CNTK_READER_STATUS_OK);
  EXPECT(cntk_reader_canceller_cancel(NULL, &ends, NULL) == REFUSED);
  EXPECT(cntk_reader_canceller_cancel(canceller, NULL, NULL) == REFUSED);
  EXPECT(cntk_reader_canceller_cancel(canceller, &ends, NULL) == CNTK_READER_STATUS_OK && ends == 0);
  cntk_reader_canceller_free(canceller);
  cntk_reader_canceller_free(NULL);
  EXPECT(cntk_reader_open(&source, &reader, NULL) == REFUSED);
  source.text = "x";
  EXPECT(cntk_reader_open(&source, NULL, NULL) == REFUSED);
  source.file = "x";
  EXPECT(cntk_reader_open(&source, &reader, NULL) == REFUSED);
  EXPECT(cntk_reader_source_list_readers(&source, NULL, 0, &number, NULL) == REFUSED);
  source.file = NULL;
  source.text = "a = [ reader = [ file = f ] ]";
  EXPECT(cntk_reader_source_list_readers(NULL, NULL, 0, &number, NULL) == REFUSED);
  EXPECT(cntk_reader_source_list_readers(&source, NULL, 0, NULL, NULL) == REFUSED);
  EXPECT(cntk_reader_source_list_readers(&source, NULL, 0, &number, NULL) == CNTK_READER_STATUS_OK &&
         number == 8);
  EXPECT(cntk_reader_describe(NULL, NULL, NULL) == REFUSED);
  EXPECT(cntk_reader_member_describe(NULL, 0, NULL, NULL) == REFUSED);
  EXPECT(cntk_reader_progress_get(NULL, NULL, NULL) == REFUSED);
  EXPECT(cntk_reader_memory_get(NULL, NULL, NULL) == REFUSED);
  EXPECT(cntk_reader_chunk_size_suggest(NULL, 1, NULL, NULL) == REFUSED);
  EXPECT(cntk_reader_conversion_run(NULL, NULL) == REFUSED);
  EXPECT(cntk_reader_stream_describe(NULL, 0, NULL, NULL) == REFUSED);
  EXPECT(cntk_reader_epoch_start(NULL, &epoch, NULL) == REFUSED);
  EXPECT(cntk_reader_epoch_start(NULL, NULL, NULL) == REFUSED);
  uint64_t index = 0;
  cntk_reader_epoch_state state = CNTK_READER_EPOCH_NONE;
  EXPECT(cntk_reader_epoch_start_next(NULL, &epoch, &index, NULL) == REFUSED);
  EXPECT(cntk_reader_epoch_get(NULL, &epoch, &state, NULL) == REFUSED);
  EXPECT(cntk_reader_configuration_set(NULL, &configuration, NULL) == REFUSED);
  EXPECT(cntk_reader_minibatch_read(NULL, &minibatch, NULL) == REFUSED);
  EXPECT(cntk_reader_minibatch_next(NULL, 0, &minibatch, &outcome, NULL) == REFUSED);
  EXPECT(cntk_reader_minibatch_wait(NULL, 0, &ready, NULL) == REFUSED);
  EXPECT(cntk_reader_state_get(NULL, NULL, 0, &number, NULL) == REFUSED);
  EXPECT(cntk_reader_state_set(NULL, NULL, 0, NULL) == REFUSED);
  EXPECT(cntk_reader_checkpoint_save(NULL, &buffer, NULL) == REFUSED);
  EXPECT(cntk_reader_checkpoint_restore(NULL, NULL, 0, NULL) == REFUSED);
  EXPECT(cntk_reader_checkpoint_restore_over_changed_values(NULL, NULL, 0, NULL) == REFUSED);
  EXPECT(cntk_reader_minibatch_describe(NULL, NULL, NULL) == REFUSED);
  EXPECT(cntk_reader_minibatch_stream_describe(NULL, 0, NULL, NULL) == REFUSED);
  EXPECT(cntk_reader_minibatch_get_key_text(NULL, 0, NULL, 0, NULL, NULL) == REFUSED);
  EXPECT(cntk_reader_buffer_get_bytes(NULL, NULL, NULL, NULL) == REFUSED);
  EXPECT(cntk_reader_error_describe(NULL, NULL) == REFUSED);
  EXPECT(cntk_reader_threads_get(NULL, NULL) == REFUSED);
  EXPECT(strcmp(cntk_reader_error_get_text(NULL), "") == 0);
  cntk_reader_free(NULL);
  cntk_reader_minibatch_retain(NULL);
  cntk_reader_minibatch_release(NULL);
  cntk_reader_buffer_free(NULL);
  cntk_reader_error_free(NULL);
  EXPECT(reader == NULL && minibatch == NULL && buffer == NULL);
}

static void test_errors_are_objects(void) {
  cntk_reader* reader = NULL;
  cntk_reader_error* error = NULL;
  cntk_reader_error_info info = {.struct_size = sizeof info};
  cntk_reader_source source = CNTK_READER_SOURCE_INIT;
  source.file = "/nowhere/at/all";
  EXPECT(cntk_reader_open(&source, &reader, &error) == CNTK_READER_STATUS_IO);
  EXPECT(reader == NULL && error != NULL);
  EXPECT(cntk_reader_error_describe(error, &info) == CNTK_READER_STATUS_OK);
  EXPECT(info.struct_size == sizeof info);
  EXPECT(info.kind == CNTK_READER_STATUS_IO);
  EXPECT(info.exception == CNTK_READER_EXCEPTION_RUNTIME_ERROR);
  EXPECT(info.file != NULL && strcmp(info.file, "/nowhere/at/all") == 0);
  EXPECT(info.line == 0 && info.offset == CNTK_READER_UNKNOWN && info.stream == NULL && info.key == NULL);
  /* The text has the location before the full stop of the message. */
  EXPECT(strncmp(cntk_reader_error_get_text(error), info.message, strlen(info.message) - 1) == 0);
  info.struct_size = 0;
  EXPECT(cntk_reader_error_describe(error, &info) == REFUSED);
  cntk_reader_error_free(error);
}

static int log_lines = 0;
static char last_line[256];

static void count_line(void* userdata, cntk_reader_log_level level, const char* line, size_t length) {
  (void)userdata;
  (void)length;
  if (level == CNTK_READER_LOG_LEVEL_ERROR) ++log_lines;
  strncpy(last_line, line, sizeof last_line - 1);
}

/* Whether a call was refused with an error whose text begins with `expected`. Frees the error. */
static int refused(cntk_reader_status status, cntk_reader_error* error, const char* expected) {
  const char* text = cntk_reader_error_get_text(error);
  const int is_so = status == REFUSED && strncmp(text, expected, strlen(expected)) == 0;
  if (!is_so) fprintf(stderr, "status %d, %s\n", (int)status, text);
  cntk_reader_error_free(error);
  return is_so;
}

/* Expects that a call that returns `error` is refused with a text. */
#define EXPECT_REFUSED(call, expected)        \
  do {                                        \
    const cntk_reader_status status = (call); \
    EXPECT(refused(status, error, expected)); \
    error = NULL;                             \
  } while (0)

static void test_misused_handles(void) {
  cntk_reader_canceller* canceller = NULL;
  cntk_reader_options* options = NULL;
  cntk_reader_error* error = NULL;
  cntk_reader_source source = CNTK_READER_SOURCE_INIT;
  cntk_reader* reader = NULL;
  void* handle;
  uint32_t ends = 0;
  EXPECT(cntk_reader_log_set_callback(NULL, count_line, NULL, NULL) == CNTK_READER_STATUS_OK);
  EXPECT(cntk_reader_canceller_create(&canceller, NULL) == CNTK_READER_STATUS_OK);
  EXPECT(cntk_reader_options_create(0, &options, NULL) == CNTK_READER_STATUS_OK);
  /* Through void *, as a program's own containers may hold handles. */
  handle = options;
  EXPECT_REFUSED(cntk_reader_canceller_cancel(handle, &ends, &error),
                 "The argument 'canceller' of cntk_reader_canceller_cancel is a cntk_reader_options. "
                 "Expected a cntk_reader_canceller.");
  handle = canceller;
  EXPECT_REFUSED(cntk_reader_options_set_size(handle, "a", 1, 1, &error),
                 "The argument 'options' of cntk_reader_options_set_size is a cntk_reader_canceller.");
  source.options = handle;
  EXPECT_REFUSED(cntk_reader_open(&source, &reader, &error),
                 "The member 'options' of cntk_reader_source is a cntk_reader_canceller.");
  EXPECT(log_lines == 0);
  cntk_reader_options_free(handle);
  EXPECT(log_lines == 1);
  EXPECT(strcmp(last_line,
                "The argument 'options' of cntk_reader_options_free is a cntk_reader_canceller. "
                "Expected a cntk_reader_options.") == 0);
  EXPECT(cntk_reader_canceller_cancel(canceller, &ends, NULL) == CNTK_READER_STATUS_OK);
  cntk_reader_canceller_free(canceller);
  EXPECT(log_lines == 1);
  EXPECT_REFUSED(cntk_reader_canceller_cancel(canceller, &ends, &error),
                 "The argument 'canceller' of cntk_reader_canceller_cancel is a released "
                 "cntk_reader_canceller.");
  source.options = options;
  source.canceller = canceller;
  EXPECT_REFUSED(cntk_reader_open(&source, &reader, &error),
                 "The member 'canceller' of cntk_reader_source is a released cntk_reader_canceller.");
  cntk_reader_canceller_free(canceller);
  EXPECT(log_lines == 2);
  cntk_reader_options_free(options);
  EXPECT(cntk_reader_log_set_callback(NULL, NULL, NULL, NULL) == CNTK_READER_STATUS_OK);
}

static void test_struct_sizes(void) {
  /* A program of a later version: unknown members are refused if set, and accepted if zero. */
  struct {
    cntk_reader_epoch epoch;
    uint64_t later;
  } future = {CNTK_READER_EPOCH_INIT, 1};
  cntk_reader_epoch small = CNTK_READER_EPOCH_INIT;
  cntk_reader_error* error = NULL;
  future.epoch.struct_size = sizeof future;
  EXPECT(cntk_reader_epoch_start(NULL, &future.epoch, &error) == REFUSED);
  EXPECT(strstr(cntk_reader_error_get_text(error), "does not know") != NULL);
  cntk_reader_error_free(error);
  future.later = 0;
  EXPECT(cntk_reader_epoch_start(NULL, &future.epoch, &error) == REFUSED);
  EXPECT(strstr(cntk_reader_error_get_text(error), "'reader'") != NULL);
  cntk_reader_error_free(error);
  small.struct_size = sizeof(size_t);
  EXPECT(cntk_reader_epoch_start(NULL, &small, &error) == REFUSED);
  EXPECT(strstr(cntk_reader_error_get_text(error), "struct_size") != NULL);
  cntk_reader_error_free(error);
}

int main(void) {
  test_null_arguments();
  test_errors_are_objects();
  test_misused_handles();
  test_struct_sizes();
  EXPECT(cntk_reader_version_get() == CNTK_READER_VERSION);
  return failures == 0 ? 0 : 1;
}
