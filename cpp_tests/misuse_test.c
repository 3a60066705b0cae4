/* Calls that must not compile, one per CASE; CASE 0 must compile. See CMakeLists.txt. */

#include <cntk_reader_host.h>

void misuse(cntk_reader* reader, cntk_reader_minibatch* minibatch, cntk_reader_buffer* buffer,
            cntk_reader_error* error, cntk_reader_section* section, cntk_reader_deserializer* deserializer,
            cntk_reader_chunk* chunk, cntk_reader_keys* keys, cntk_reader_failure* failure);

void misuse(cntk_reader* reader, cntk_reader_minibatch* minibatch, cntk_reader_buffer* buffer,
            cntk_reader_error* error, cntk_reader_section* section, cntk_reader_deserializer* deserializer,
            cntk_reader_chunk* chunk, cntk_reader_keys* keys, cntk_reader_failure* failure) {
  cntk_reader_user_deserializer table = {0};
  cntk_reader_user_chunk data = {0};
  const cntk_reader_minibatch* borrowed = minibatch;
  size_t size = 0;
#if CASE == 1
  cntk_reader_deserializer_free(&table);
#elif CASE == 2
  cntk_reader_deserializer_describe(&table, NULL, NULL);
#elif CASE == 3
  cntk_reader_chunk_free(&data);
#elif CASE == 4
  cntk_reader_chunk_get_sequence(&data, 0, 0, NULL, NULL);
#elif CASE == 5
  cntk_reader whole;
#elif CASE == 6
  cntk_reader_deserializer whole;
#elif CASE == 7
  cntk_reader_chunk whole;
#elif CASE == 8
  size = sizeof(cntk_reader_minibatch);
#elif CASE == 9
  size = sizeof(cntk_reader_buffer) + sizeof(cntk_reader_error);
#elif CASE == 10
  size = sizeof(cntk_reader_section) + sizeof(cntk_reader_keys) + sizeof(cntk_reader_failure);
#elif CASE == 11
  cntk_reader_free((void**)reader);
#elif CASE == 12
  cntk_reader_free(minibatch);
#elif CASE == 13
  cntk_reader_minibatch_release(reader);
#elif CASE == 14
  cntk_reader_checkpoint_restore(reader, buffer, size, NULL);
#elif CASE == 15
  cntk_reader_minibatch_read(reader, &minibatch, NULL);
#elif CASE == 16
  cntk_reader_open(&table, &reader, NULL);
#elif CASE == 17
  cntk_reader_open(NULL, reader, NULL);
#elif CASE == 18
  cntk_reader_open(NULL, &reader, error);
#elif CASE == 19
  cntk_reader_error_free(&error);
#elif CASE == 20
  cntk_reader_configuration_set(reader, &(cntk_reader_epoch)CNTK_READER_EPOCH_INIT, NULL);
#elif CASE == 21
  cntk_reader_minibatch_stream_describe(minibatch, 0, &(cntk_reader_stream_info){0}, NULL);
#elif CASE == 22
  cntk_reader_section_free(deserializer);
#elif CASE == 23
  cntk_reader_keys_release(failure);
#elif CASE == 24
  cntk_reader_epoch_start((const cntk_reader*)reader, NULL, NULL);
#endif
  cntk_reader_deserializer_free(deserializer);
  cntk_reader_chunk_free(chunk);
  cntk_reader_minibatch_release(borrowed);
  cntk_reader_buffer_free(buffer);
  cntk_reader_error_free(error);
  cntk_reader_section_free(section);
  cntk_reader_keys_release(keys);
  cntk_reader_failure_set_message(failure, "", size);
  (void)table;
  (void)data;
  cntk_reader_free(reader);
}
