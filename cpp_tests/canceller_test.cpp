// Calls that are cancelled from another thread.

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "data.hpp"

namespace {

using CancellerTest = DataTest;

// A deserializer whose chunks of two sequences block until Open is called.
class Gated : public cr::UserDeserializer {
 public:
  std::vector<cr::UserStream> GetStreams() override {
    return {{"x", {1}, cr::Storage::kDense, cr::ElementType::kFloat, false}};
  }

  std::uint32_t GetChunkCount() override { return 4; }

  cr::UserChunk GetChunk(std::uint32_t chunk) override {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return is_open_; });
    auto values = std::make_shared<std::vector<float>>();
    for (std::uint32_t i = 0; i < 2; ++i) values->push_back(static_cast<float>(2 * chunk + i));
    const cr::Span<const float> x(values->data(), values->size());
    return cr::UserChunk({cr::UserStreamData::Samples(cr::DenseArray(x))}, values);
  }

  void Open() {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
};

TEST_F(CancellerTest, CancelledReadLosesNothing) {
  const auto user = std::make_shared<Gated>();
  auto canceller = std::make_unique<cr::Canceller>();
  cr::Reader reader = cr::Reader::FromUser(user, "randomize = false", canceller.get());
  reader.StartEpoch(Sweep(3));
  EXPECT_FALSE(canceller->Cancel());
  const cr::Canceller copy = *canceller;
  canceller.reset();
  for (int i = 0; i < 3; ++i) {
    std::thread other([&] {
      while (!copy.Cancel()) std::this_thread::yield();
    });
    const cr::Error error = ErrorOf([&] { reader.GetMinibatch(); });
    other.join();
    EXPECT_EQ(error.Kind(), cr::ErrorKind::kCancelled);
  }
  user->Open();
  EXPECT_EQ(Rest(reader), (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST_F(CancellerTest, IdleReaderHasNothingToCancel) {
  const cr::Canceller canceller;
  cr::Reader reader = cr::Reader::FromText(Configuration(Lines(5)), {}, {}, &canceller);
  reader.StartEpoch(Sweep(2));
  EXPECT_EQ(Rest(reader).size(), 5u);
  EXPECT_FALSE(canceller.Cancel());
}

TEST_F(CancellerTest, TimeoutLosesNothing) {
  using std::chrono::milliseconds;
  const auto user = std::make_shared<Gated>();
  cr::Reader reader = cr::Reader::FromUser(user, "randomize = false");
  reader.StartEpoch(Sweep(3));
  std::optional<cr::Minibatch> step;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(reader.NextStep(milliseconds(5), step), cr::Outcome::kPending);
    EXPECT_FALSE(step);
    EXPECT_FALSE(reader.Wait(milliseconds(-1)));
  }
  user->Open();
  EXPECT_TRUE(reader.Wait(milliseconds::max()));
  EXPECT_EQ(reader.GetProgress().delivered, 0u);
  EXPECT_EQ(reader.NextStep(milliseconds(0), step), cr::Outcome::kMinibatch);
  ASSERT_TRUE(step && *step && step->IsStep());
  EXPECT_EQ((*step)["x"].Samples(), 3u);
  EXPECT_EQ(Rest(reader), (std::vector<float>{3, 4, 5, 6, 7}));
  EXPECT_FALSE(reader.NextStep());
  EXPECT_EQ(reader.NextStep(milliseconds(0), step), cr::Outcome::kEndOfEpoch);
  EXPECT_FALSE(step);
  // GetMinibatch, as in CNTK, returns a minibatch without data, which is not a step.
  const cr::Minibatch nothing = reader.GetMinibatch();
  EXPECT_TRUE(!nothing && !nothing.IsStep() && nothing.EndOfEpoch());
}

}  // namespace
