/* A program that loads the shared library, reads and unloads it, several times: unload_test LIBRARY FILE.ctf
 *
 * The first rounds free what they make. The last one leaves a reader, its threads and a minibatch alive. */

#define _POSIX_C_SOURCE 200809L /* nanosleep, alarm */

#include <cntk_reader.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 3

static void fail(const char* call, const char* reason) {
  fprintf(stderr, "unload_test: %s: %s\n", call, reason);
  exit(1);
}

/* Copies the address of a function: C has no conversion from void* to a pointer to a function. */
static void load(void* library, const char* name, void* function, size_t size) {
  void* address = dlsym(library, name);
  if (address == NULL) fail(name, dlerror());
  memcpy(function, &address, size);
}

/* The function `name` of the library, as a local pointer. */
#define LOAD(name)              \
  __typeof__(&name) own_##name; \
  load(library, #name, &own_##name, sizeof own_##name)

/* Reads five minibatches, and frees all unless `leaves`. */
static void read_some(void* library, const char* options, int leaves) {
  /* Static, so that a leak checker finds what is left alive. */
  static cntk_reader* reader;
  static const cntk_reader_minibatch* minibatch;
  cntk_reader_source source = CNTK_READER_SOURCE_INIT;
  cntk_reader_epoch epoch = CNTK_READER_EPOCH_INIT;
  int i;
  minibatch = NULL;
  LOAD(cntk_reader_open);
  LOAD(cntk_reader_free);
  LOAD(cntk_reader_epoch_start);
  LOAD(cntk_reader_minibatch_read);
  LOAD(cntk_reader_minibatch_release);
  source.text = options;
  if (own_cntk_reader_open(&source, &reader, NULL) != CNTK_READER_STATUS_OK)
    fail("cntk_reader_open", options);
  epoch.minibatch_size = 7;
  if (own_cntk_reader_epoch_start(reader, &epoch, NULL) != CNTK_READER_STATUS_OK)
    fail("cntk_reader_epoch_start", options);
  for (i = 0; i < 5; ++i) {
    own_cntk_reader_minibatch_release(minibatch);
    if (own_cntk_reader_minibatch_read(reader, &minibatch, NULL) != CNTK_READER_STATUS_OK)
      fail("cntk_reader_minibatch_read", options);
  }
  if (leaves) return;
  own_cntk_reader_minibatch_release(minibatch);
  own_cntk_reader_free(reader);
}

int main(int count, char** arguments) {
  const struct timespec pause = {0, 100000000};
  char options[4096];
  int round;
  if (count != 3) fail("usage", "unload_test LIBRARY FILE.ctf");
  alarm(60);
  snprintf(options, sizeof options,
           "deserializers = ([ type = \"CNTKTextFormatDeserializer\" ; module = \"CNTKTextFormatReader\"\n"
           "file = \"%s\" ; chunkSizeInBytes = 1000 ; input = [ x = [ dim = 2 ; format = \"dense\" ] ] ])",
           arguments[2]);
  for (round = 0; round <= ROUNDS; ++round) {
    void* library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) fail("dlopen", dlerror());
    read_some(library, options, round == ROUNDS);
    if (dlclose(library) != 0) fail("dlclose", dlerror());
  }
  /* Threads that went on in unloaded code would end the process now. */
  nanosleep(&pause, NULL);
  return 0;
}
