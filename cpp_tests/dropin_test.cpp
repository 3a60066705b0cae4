// Tests of the modules for CNTK's hosts that need no host: text conversion, page-locked copies, and
// the struct that provides their addresses.

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "../dropin/host_deserializers.hpp"
#include "../dropin/host_versions.hpp"
#include "../dropin/staging.hpp"
#include "../dropin/text.hpp"

namespace {

using cntk_dropin::narrow;
using cntk_dropin::widen;

TEST(Text, RoundTripsThroughWideStrings) {
  const std::string text = "a\xc3\xa4\xe2\x82\xac\xf0\x9d\x84\x9e";
  EXPECT_EQ(widen(text), (std::wstring{L'a', 0xe4, 0x20ac, 0x1d11e}));
  EXPECT_EQ(narrow(widen(text)), text);
  EXPECT_EQ(widen(""), L"");
}

TEST(Text, ReplacesInvalidCharacters) {
  for (const char* bad :
       {"\xff", "\xc3", "\xe2\x82", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80"}) {
    const std::wstring wide = widen(bad);
    ASSERT_FALSE(wide.empty());
    for (const wchar_t c : wide) EXPECT_EQ(c, 0xfffd) << bad;
  }
  EXPECT_EQ(narrow(std::wstring(1, wchar_t{0xd800})), "\xef\xbf\xbd");
  EXPECT_EQ(narrow(std::wstring(1, wchar_t{0x110000})), "\xef\xbf\xbd");
}

// Counts allocations, and records their device.
struct Ledger {
  static inline int allocations = 0, releases = 0, last_device = -1;

  static void* allocate(size_t bytes, int device) {
    ++allocations;
    last_device = device;
    return std::malloc(bytes);
  }
  static void release(void* memory, int) {
    ++releases;
    std::free(memory);
  }
};

class StagingTest : public ::testing::Test {
 protected:
  void SetUp() override { Ledger::allocations = Ledger::releases = 0; }

  const void* place(size_t stream, const std::string& data) {
    return staging().place(stream, data.data(), data.size());
  }
  cntk_dropin::Staging& staging() { return *staging_; }
  void destroy() { staging_.reset(); }

 private:
  std::unique_ptr<cntk_dropin::Staging> staging_ =
      std::make_unique<cntk_dropin::Staging>(cntk_dropin::PageLocker{Ledger::allocate, Ledger::release});
};

TEST_F(StagingTest, DoesNotCopyOnTheCpu) {
  const std::string data = "values";
  EXPECT_EQ(place(0, data), data.data());  // before devices are known
  staging().select({-1, -1});
  staging().turn();
  EXPECT_EQ(place(0, data), data.data());
  EXPECT_EQ(place(1, data), data.data());
  destroy();
  EXPECT_EQ(Ledger::allocations, 0);
}

TEST_F(StagingTest, AlternatesBuffersForDevices) {
  const std::string first = "first", second = "second", third = "third";
  staging().select({-1, 2});
  staging().turn();
  const void* const one = place(1, first);
  EXPECT_EQ(Ledger::last_device, 2);
  staging().turn();
  const void* const two = place(1, second);
  EXPECT_NE(one, two);
  EXPECT_EQ(std::memcmp(one, first.data(), first.size()), 0) << "the previous set is still in use";
  staging().turn();
  EXPECT_EQ(place(1, third), one);
  EXPECT_EQ(place(0, third), third.data());
  EXPECT_EQ(Ledger::allocations, 2);
  destroy();
  EXPECT_EQ(Ledger::releases, 2);
}

TEST_F(StagingTest, GrowsAndFollowsTheDevice) {
  staging().select({0});
  place(0, std::string(10, 'x'));
  place(0, std::string(1000, 'x'));
  EXPECT_EQ(Ledger::allocations, 2);
  EXPECT_EQ(Ledger::releases, 1);
  staging().select({1});
  place(0, std::string(10, 'x'));
  EXPECT_EQ(Ledger::allocations, 3);
  EXPECT_EQ(Ledger::last_device, 1);
  staging().select({-1});
  const std::string data = "x";
  EXPECT_EQ(place(0, data), data.data());
  destroy();
  EXPECT_EQ(Ledger::releases, 3);
}

}  // namespace
