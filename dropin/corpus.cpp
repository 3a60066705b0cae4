#include "corpus.hpp"

namespace cntk_dropin {
namespace {

using KeysHandle = std::shared_ptr<const cntk_reader_keys>;

size_t number_of(const cntk_reader_keys* keys, const std::string& text) {
  uint64_t number = 0;
  call(cntk_reader_keys_get_number, keys, text.data(), text.size(), &number);
  return number;
}

std::string text_of(const cntk_reader_keys* keys, size_t number) {
  size_t length = 0;
  call(cntk_reader_keys_get_text, keys, uint64_t{number}, nullptr, size_t{0}, &length);
  std::string text(length + 1, '\0');
  call(cntk_reader_keys_get_text, keys, uint64_t{number}, text.data(), text.size(), &length);
  text.resize(length);
  return text;
}

}  // namespace

std::shared_ptr<cntk_host::CorpusDescriptor> make_corpus(const cntk_reader_keys* keys) {
  cntk_reader_keys_retain(keys);
  const KeysHandle shared(keys, cntk_reader_keys_release);
  uint32_t numeric = 0, hashed = 0;
  call(cntk_reader_keys_describe, keys, &numeric, &hashed);
  auto corpus = std::make_shared<cntk_host::CorpusDescriptor>();
  corpus->numeric_keys = numeric != 0;
  corpus->hash_keys = hashed != 0;
  corpus->key_to_id = [shared](const std::string& text) { return number_of(shared.get(), text); };
  corpus->id_to_key = [shared](size_t number) { return text_of(shared.get(), number); };
  return corpus;
}

}  // namespace cntk_dropin
