// The layouts that the modules pass to CNTK's hosts: all ways of filling them, and their reuse.
// Plain memory stands in for the host's matrices.

#include "../dropin/layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>

namespace {

std::map<const void*, std::vector<float>> matrices;

}  // namespace

namespace cntk_host::math {

void construct_floats(void* matrix, int) { matrices[matrix]; }
void destroy_floats(void* matrix) { matrices.erase(matrix); }
void resize_floats(void* matrix, size_t rows, size_t columns, size_t, bool, bool) {
  // Garbage in memory of exactly this size, so that sanitizers detect writes past its end.
  matrices[matrix] = std::vector<float>(rows * columns, -7.0f);
}
float* floats_of(const void* matrix) { return matrices[matrix].data(); }
void construct_chars(void*, int) {}
void destroy_chars(void*) {}

}  // namespace cntk_host::math

namespace {

using cntk_dropin::Distances;
using cntk_dropin::kNever;
using cntk_dropin::Layouts;
using cntk_dropin::Lookups;
using cntk_dropin::Records;
using cntk_host::Layout;
using cntk_host::LayoutHead;
using cntk_host::LayoutRecord;
using cntk_host::StreamMinibatch;

std::mt19937 generator(1);

size_t number(size_t from, size_t to) { return std::uniform_int_distribution<size_t>(from, to)(generator); }

// Records that cover some rows, unordered, as in a stream's part of a minibatch.
struct Sample {
  std::vector<LayoutRecord> records;
  cntk_reader_minibatch_stream part = {};

  Sample(size_t steps, size_t rows, bool truncated) {
    for (size_t row = 0; row < rows; ++row) {
      for (size_t step = 0; step < steps;) {
        const size_t length = number(1, steps - step),
                     id = number(0, 2) == 0 ? cntk_host::kGap : records.size();
        LayoutRecord record = {id, row, static_cast<int64_t>(step), step + length};
        if (truncated && step == 0) record.begin -= static_cast<int64_t>(number(0, 5));
        if (truncated && step + length == steps) record.end += number(0, 5);
        records.push_back(record);
        step += length;
      }
    }
    std::shuffle(records.begin(), records.end(), generator);
    set(steps, rows);
  }

  Sample(size_t steps, size_t rows, std::vector<LayoutRecord> some) : records(std::move(some)) {
    set(steps, rows);
  }

  void set(size_t steps, size_t rows) {
    part.steps = steps;
    part.lanes = rows;
    part.columns = steps * rows;
    for (const LayoutRecord& record : records) {
      if (record.id == cntk_host::kGap) continue;
      part.samples += std::min(record.end, steps) - static_cast<size_t>(std::max<int64_t>(record.begin, 0));
    }
    part.records = reinterpret_cast<const cntk_reader_record*>(records.data());
    part.record_count = records.size();
  }

  Records view() const { return {part.steps, part.lanes, records.data(), records.size()}; }
};

// The values that consumers look up.
struct Result {
  std::vector<float> to_start, to_end;
  std::vector<ptrdiff_t> nearest_start, nearest_end;
  std::vector<bool> has_gap;

  explicit Result(const Sample& sample) : to_start(sample.part.columns, -7.0f), to_end(to_start) {}
  Lookups places() { return {to_start.data(), to_end.data(), nearest_start, nearest_end, has_gap}; }

  bool operator==(const Result& other) const {
    return to_start == other.to_start && to_end == other.to_end && nearest_start == other.nearest_start &&
           nearest_end == other.nearest_end && has_gap == other.has_gap;
  }
};

// The expected values, column by column, from the record that covers each.
Result expected(const Sample& sample) {
  Result result(sample);
  for (size_t step = 0; step < sample.part.steps; ++step) {
    ptrdiff_t nearest_start = kNever, nearest_end = kNever;
    bool has_gap = false;
    const auto now = static_cast<ptrdiff_t>(step);
    for (const LayoutRecord& record : sample.records) {
      if (record.begin > now || step >= record.end) continue;
      const size_t column = step * sample.part.lanes + record.row;
      const bool is_gap = record.id == cntk_host::kGap;
      const ptrdiff_t start = now - record.begin, end = static_cast<ptrdiff_t>(record.end) - 1 - now;
      result.to_start[column] = is_gap ? -1.0f : static_cast<float>(start);
      result.to_end[column] = is_gap ? 0.0f : static_cast<float>(end);
      has_gap = has_gap || is_gap;
      if (is_gap) continue;
      nearest_start = std::min(nearest_start, start);
      nearest_end = std::min(nearest_end, end);
    }
    result.nearest_start.push_back(nearest_start);
    result.nearest_end.push_back(nearest_end);
    result.has_gap.push_back(has_gap);
  }
  return result;
}

Result content(const LayoutHead& head, const Sample& sample) {
  const auto& layout = static_cast<const Layout&>(head);
  Result result(sample);
  std::copy_n(layout.to_start.values(), sample.part.columns, result.to_start.begin());
  std::copy_n(layout.to_end.values(), sample.part.columns, result.to_end.begin());
  result.nearest_start = layout.nearest_start;
  result.nearest_end = layout.nearest_end;
  result.has_gap = layout.has_gap;
  EXPECT_EQ(layout.steps, sample.part.steps);
  EXPECT_EQ(layout.rows, sample.part.lanes);
  EXPECT_EQ(layout.declared_frames, sample.part.columns);
  EXPECT_EQ(layout.gap_frames, sample.part.columns - sample.part.samples);
  EXPECT_EQ(layout.right_splice, sample.part.right_splice);
  EXPECT_TRUE(std::equal(layout.records.begin(), layout.records.end(), sample.records.begin(),
                         sample.records.end(), [](const LayoutRecord& a, const LayoutRecord& b) {
                           return a.id == b.id && a.row == b.row && a.begin == b.begin && a.end == b.end;
                         }));
  return result;
}

TEST(Distances, AreEqualForAllMethods) {
  Distances distances;  // with reused memory
  for (int i = 0; i < 3000; ++i) {
    const size_t lanes = i % 4 == 0 ? 1 : number(1, 14);
    const Sample sample(number(1, 12), lanes, i % 8 < 4);
    const Result right = expected(sample);
    Result by_records(sample), by_steps(sample), one_lane(sample), chosen(sample);
    Distances::fill_by_records(sample.view(), by_records.places());
    EXPECT_TRUE(by_records == right) << i;
    EXPECT_EQ(distances.fill_by_steps(sample.view(), by_steps.places()), sample.part.lanes >= 4);
    EXPECT_TRUE(by_steps == (sample.part.lanes >= 4 ? right : Result(sample))) << i;
    EXPECT_EQ(Distances::fill_one_lane(sample.view(), one_lane.places()), lanes == 1);
    EXPECT_TRUE(one_lane == (lanes == 1 ? right : Result(sample))) << i;
    distances.fill(sample.view(), chosen.places());
    EXPECT_TRUE(chosen == right) << i;
  }
}

TEST(Distances, AreRightForLongSequences) {
  constexpr size_t long_ago = size_t{1} << 24;
  for (const size_t more : {0, 1, 2, 3, 1000}) {
    const auto begin = -static_cast<int64_t>(long_ago - 2 + more);
    for (const LayoutRecord& record : {LayoutRecord{0, 0, begin, 2}, {0, 0, 0, long_ago + more}}) {
      const Sample sample(2, 4, {record, {1, 1, 0, 2}, {cntk_host::kGap, 2, 0, 2}, {2, 3, -1, 3}});
      Distances distances;
      Result result(sample);
      distances.fill(sample.view(), result.places());
      EXPECT_TRUE(result == expected(sample)) << more;
      EXPECT_EQ(distances.fill_by_steps(sample.view(), result.places()), more == 0);
    }
  }
}

TEST(Distances, AreRightForLongSequencesInOneLane) {
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  constexpr size_t steps = 5;
  for (const int64_t more : {0, 1, 1000}) {
    for (const LayoutRecord& record : {LayoutRecord{0, 0, static_cast<int64_t>(steps) - most - more, steps},
                                       {0, 0, 0, static_cast<size_t>(most + 1 + more)}}) {
      const Sample sample(steps, 1, {record});
      Distances distances;
      Result result(sample);
      EXPECT_EQ(Distances::fill_one_lane(sample.view(), result.places()), more == 0);
      distances.fill(sample.view(), result.places());
      EXPECT_TRUE(result == expected(sample)) << more;
    }
  }
}

// One minibatch.
std::vector<std::shared_ptr<StreamMinibatch>> make(Layouts& layouts,
                                                   const std::vector<const Sample*>& samples) {
  std::vector<std::shared_ptr<StreamMinibatch>> streams;
  for (size_t i = 0; i < samples.size(); ++i) streams.push_back(std::make_shared<StreamMinibatch>());
  for (size_t i = 0; i < samples.size(); ++i) streams[i]->layout = layouts.make(i, samples[i]->part, streams);
  return streams;
}

TEST(Layouts, AreRefilled) {
  Layouts layouts(false);
  for (int i = 0; i < 500; ++i) {
    Sample first(number(1, 12), number(1, 14), true), second(number(1, 3), number(1, 2), true);
    second.part.right_splice = number(0, 1);
    const auto streams = make(layouts, {&first, &second, &first});
    EXPECT_TRUE(content(*streams[0]->layout, first) == expected(first));
    EXPECT_TRUE(content(*streams[1]->layout, second) == expected(second));
    EXPECT_EQ(streams[2]->layout, streams[0]->layout) << "equal records";
  }
}

TEST(Layouts, AreNotReusedWhileAHostKeepsThem) {
  Layouts layouts(true);
  std::vector<Sample> samples;
  for (int i = 0; i < 20; ++i) samples.emplace_back(number(1, 12), number(1, 14), true);
  std::vector<std::shared_ptr<LayoutHead>> kept;
  for (const Sample& sample : samples) kept.push_back(make(layouts, {&sample})[0]->layout);
  for (size_t i = 0; i < samples.size(); ++i) {
    EXPECT_TRUE(content(*kept[i], samples[i]) == expected(samples[i]));
    EXPECT_FALSE(static_cast<const Layout&>(*kept[i]).writable);
  }
}

TEST(Layouts, Alternate) {
  Layouts layouts(false);
  const Sample one(3, 5, false), two(4, 5, false);
  const LayoutHead* const first = make(layouts, {&one})[0]->layout.get();
  const LayoutHead* const second = make(layouts, {&two})[0]->layout.get();
  EXPECT_NE(first, second);
  EXPECT_EQ(make(layouts, {&two})[0]->layout.get(), first);
  EXPECT_EQ(make(layouts, {&one})[0]->layout.get(), second);
}

}  // namespace
