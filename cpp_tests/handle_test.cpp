// Misuse of handles through the C interface: released ones, and ones of another type.

#include <cntk_reader.h>

#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "data.hpp"

namespace {

// A call with a handle at any address.
struct Use {
  std::string function;
  std::function<cntk_reader_status(void*, cntk_reader_error**)> call;
};

// One or more calls for every type of handle, except of cntk_reader_error.
std::vector<Use> UsesOf(const std::string& type) {
  const auto reader = [](void* handle) { return static_cast<cntk_reader*>(handle); };
  const auto minibatch = [](void* handle) { return static_cast<const cntk_reader_minibatch*>(handle); };
  if (type == "cntk_reader")
    return {{"cntk_reader_describe",
             [=](void* handle, cntk_reader_error** error) {
               cntk_reader_info info = {};
               info.struct_size = sizeof info;
               return cntk_reader_describe(reader(handle), &info, error);
             }},
            {"cntk_reader_epoch_start",
             [=](void* handle, cntk_reader_error** error) {
               cntk_reader_epoch epoch = CNTK_READER_EPOCH_INIT;
               return cntk_reader_epoch_start(reader(handle), &epoch, error);
             }},
            {"cntk_reader_minibatch_read",
             [=](void* handle, cntk_reader_error** error) {
               const cntk_reader_minibatch* read = nullptr;
               return cntk_reader_minibatch_read(reader(handle), &read, error);
             }},
            {"cntk_reader_checkpoint_restore",
             [=](void* handle, cntk_reader_error** error) {
               return cntk_reader_checkpoint_restore(reader(handle), nullptr, 0, error);
             }},
            {"cntk_reader_state_set", [=](void* handle, cntk_reader_error** error) {
               return cntk_reader_state_set(reader(handle), nullptr, 0, error);
             }}};
  if (type == "cntk_reader_minibatch")
    return {{"cntk_reader_minibatch_describe",
             [=](void* handle, cntk_reader_error** error) {
               cntk_reader_minibatch_info info = {};
               info.struct_size = sizeof info;
               return cntk_reader_minibatch_describe(minibatch(handle), &info, error);
             }},
            {"cntk_reader_minibatch_stream_describe",
             [=](void* handle, cntk_reader_error** error) {
               cntk_reader_minibatch_stream stream = {};
               stream.struct_size = sizeof stream;
               return cntk_reader_minibatch_stream_describe(minibatch(handle), 0, &stream, error);
             }},
            {"cntk_reader_minibatch_stream_pad",
             [=](void* handle, cntk_reader_error** error) {
               return cntk_reader_minibatch_stream_pad(minibatch(handle), 0, 9, 0, nullptr, 0, nullptr, 0,
                                                       error);
             }},
            {"cntk_reader_minibatch_get_key_text", [=](void* handle, cntk_reader_error** error) {
               std::size_t length = 0;
               return cntk_reader_minibatch_get_key_text(minibatch(handle), 0, nullptr, 0, &length, error);
             }}};
  if (type == "cntk_reader_buffer")
    return {{"cntk_reader_buffer_get_bytes", [](void* handle, cntk_reader_error** error) {
               const std::uint8_t* bytes = nullptr;
               std::size_t size = 0;
               return cntk_reader_buffer_get_bytes(static_cast<cntk_reader_buffer*>(handle), &bytes, &size,
                                                   error);
             }}};
  if (type == "cntk_reader_options")
    return {{"cntk_reader_options_set_flag",
             [](void* handle, cntk_reader_error** error) {
               return cntk_reader_options_set_flag(static_cast<cntk_reader_options*>(handle), "randomize", 9,
                                                   1, error);
             }},
            {"cntk_reader_options_copy", [](void* handle, cntk_reader_error** error) {
               cntk_reader_options* copy = nullptr;
               const auto* from = static_cast<cntk_reader_options*>(handle);
               const cntk_reader_status status = cntk_reader_options_copy(from, &copy, error);
               cntk_reader_options_free(copy);
               return status;
             }}};
  return {{"cntk_reader_canceller_cancel", [](void* handle, cntk_reader_error** error) {
             std::uint32_t ends = 0;
             return cntk_reader_canceller_cancel(static_cast<cntk_reader_canceller*>(handle), &ends, error);
           }}};
}

void Release(const std::string& type, void* handle) {
  if (type == "cntk_reader") cntk_reader_free(static_cast<cntk_reader*>(handle));
  if (type == "cntk_reader_minibatch")
    cntk_reader_minibatch_release(static_cast<const cntk_reader_minibatch*>(handle));
  if (type == "cntk_reader_buffer") cntk_reader_buffer_free(static_cast<cntk_reader_buffer*>(handle));
  if (type == "cntk_reader_options") cntk_reader_options_free(static_cast<cntk_reader_options*>(handle));
  if (type == "cntk_reader_canceller")
    cntk_reader_canceller_free(static_cast<cntk_reader_canceller*>(handle));
  if (type == "cntk_reader_error") cntk_reader_error_free(static_cast<cntk_reader_error*>(handle));
}

const std::vector<std::string> kTypes = {"cntk_reader",         "cntk_reader_minibatch", "cntk_reader_buffer",
                                         "cntk_reader_options", "cntk_reader_canceller", "cntk_reader_error"};

class HandleTest : public DataTest {
 protected:
  void SetUp() override {
    DataTest::SetUp();
    const std::string text = Configuration(Lines(20));
    cntk_reader_source source = CNTK_READER_SOURCE_INIT;
    source.text = text.c_str();
    cntk_reader_epoch epoch = CNTK_READER_EPOCH_INIT;
    epoch.minibatch_size = 2;
    cntk_reader_buffer* buffer = nullptr;
    cntk_reader_options* options = nullptr;
    cntk_reader_canceller* canceller = nullptr;
    cntk_reader_error* error = nullptr;
    ASSERT_EQ(cntk_reader_open(&source, &reader_, nullptr), CNTK_READER_STATUS_OK);
    ASSERT_EQ(cntk_reader_epoch_start(reader_, &epoch, nullptr), CNTK_READER_STATUS_OK);
    ASSERT_EQ(cntk_reader_checkpoint_save(reader_, &buffer, nullptr), CNTK_READER_STATUS_OK);
    ASSERT_EQ(cntk_reader_options_create(0, &options, nullptr), CNTK_READER_STATUS_OK);
    ASSERT_EQ(cntk_reader_canceller_create(&canceller, nullptr), CNTK_READER_STATUS_OK);
    ASSERT_NE(cntk_reader_stream_describe(reader_, 9, nullptr, &error), CNTK_READER_STATUS_OK);
    handles_ = {reader_, Read(), buffer, options, canceller, error};
    cr::SetLogCallback([this](cr::LogLevel, std::string_view line) { lines_.emplace_back(line); });
  }

  void* Read() {
    const cntk_reader_minibatch* minibatch = nullptr;
    EXPECT_EQ(cntk_reader_minibatch_read(reader_, &minibatch, nullptr), CNTK_READER_STATUS_OK);
    return const_cast<cntk_reader_minibatch*>(minibatch);
  }

  // Makes all calls of a type with a handle, which must be refused.
  static void ExpectRefusals(const std::string& type, void* handle, const std::string& found) {
    if (type == "cntk_reader_error") {
      auto* error = static_cast<cntk_reader_error*>(handle);
      EXPECT_NE(std::strstr(cntk_reader_error_get_text(error), "is released, or not a cntk_reader_error"),
                nullptr);
      EXPECT_EQ(cntk_reader_error_get_cause(error), nullptr);
      cntk_reader_error_info info = {};
      info.struct_size = sizeof info;
      EXPECT_EQ(cntk_reader_error_describe(error, &info), CNTK_READER_STATUS_INVALID_ARGUMENT);
      return;
    }
    for (const Use& use : UsesOf(type)) {
      cntk_reader_error* error = nullptr;
      EXPECT_EQ(use.call(handle, &error), CNTK_READER_STATUS_INVALID_ARGUMENT) << use.function;
      const std::string text = cntk_reader_error_get_text(error);
      EXPECT_NE(text.find(" of " + use.function + " is " + found + ". Expected a " + type), std::string::npos)
          << text;
      cntk_reader_error_free(error);
    }
  }

  cntk_reader* reader_ = nullptr;
  std::vector<void*> handles_;  // In the order of kTypes.
  std::vector<std::string> lines_;
};

TEST_F(HandleTest, HandlesOfOtherTypesAreRefused) {
  for (std::size_t type = 0; type < kTypes.size(); ++type)
    for (std::size_t other = 0; other < kTypes.size(); ++other) {
      if (type == other) continue;
      ExpectRefusals(kTypes[type], handles_[other], "a " + kTypes[other]);
      const std::size_t before = lines_.size();
      Release(kTypes[type], handles_[other]);
      ASSERT_EQ(lines_.size(), before + 1);
      EXPECT_NE(lines_.back().find(" is a " + kTypes[other] + ". Expected a " + kTypes[type]),
                std::string::npos)
          << lines_.back();
    }
  const std::size_t before = lines_.size();
  for (std::size_t type = kTypes.size(); type-- > 0;) Release(kTypes[type], handles_[type]);
  EXPECT_EQ(lines_.size(), before) << "all were still in use";
}

TEST_F(HandleTest, NullIsRefused) {
  for (const std::string& type : kTypes) {
    if (type == "cntk_reader_error") continue;
    for (const Use& use : UsesOf(type)) {
      cntk_reader_error* error = nullptr;
      EXPECT_EQ(use.call(nullptr, &error), CNTK_READER_STATUS_INVALID_ARGUMENT) << use.function;
      const std::string text = cntk_reader_error_get_text(error);
      EXPECT_NE(text.find(" of " + use.function + " must not be NULL."), std::string::npos) << text;
      cntk_reader_error_free(error);
    }
  }
  for (std::size_t type = kTypes.size(); type-- > 0;) Release(kTypes[type], handles_[type]);
}

TEST_F(HandleTest, ReleasedHandlesAreRefused) {
  for (std::size_t type = kTypes.size(); type-- > 0;) Release(kTypes[type], handles_[type]);
  EXPECT_TRUE(lines_.empty());
  for (std::size_t type = 0; type < kTypes.size(); ++type) {
    ExpectRefusals(kTypes[type], handles_[type], "a released " + kTypes[type]);
    Release(kTypes[type], handles_[type]);
    ASSERT_EQ(lines_.size(), type + 1);
    EXPECT_NE(lines_.back().find(" is a released " + kTypes[type] + "."), std::string::npos) << lines_.back();
  }
}

TEST_F(HandleTest, MinibatchOfEarlierStepStaysReleased) {
  void* first = handles_[1];
  const auto* minibatch = static_cast<const cntk_reader_minibatch*>(first);
  cntk_reader_minibatch_retain(minibatch);
  Release("cntk_reader_minibatch", first);
  cntk_reader_minibatch_info info = {};
  info.struct_size = sizeof info;
  EXPECT_EQ(cntk_reader_minibatch_describe(minibatch, &info, nullptr), CNTK_READER_STATUS_OK);
  Release("cntk_reader_minibatch", first);
  std::set<void*> later;
  for (int i = 0; i < 1000; ++i) {
    void* next = Read();
    EXPECT_NE(next, first) << "the handle is used again at once";
    later.insert(next);
    Release("cntk_reader_minibatch", next);
  }
  ExpectRefusals("cntk_reader_minibatch", first, "a released cntk_reader_minibatch");
  cntk_reader_minibatch_retain(minibatch);
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_EQ(lines_.back().find("The argument 'minibatch' of cntk_reader_minibatch_retain is a released"), 0u);
  handles_[1] = nullptr;
  for (std::size_t type = kTypes.size(); type-- > 0;) Release(kTypes[type], handles_[type]);
}

}  // namespace
