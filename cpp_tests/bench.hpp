// The measurements of the drivers' step `bench`, and a digest of everything that a reader delivers.

#ifndef CNTK_READER_CPP_TESTS_BENCH_HPP
#define CNTK_READER_CPP_TESTS_BENCH_HPP

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "json.hpp"

namespace bench {

using Clock = std::chrono::steady_clock;

inline double Seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

// Returns the seconds since `begin`.
inline double Since(Clock::time_point begin) { return Seconds(Clock::now() - begin); }

// Times reading, minibatch by minibatch. A sweep ends with the minibatch that has the flag;
// minibatches after the last flag count as another sweep.
class Stopwatch {
 public:
  explicit Stopwatch(Clock::time_point begin) : start_(begin), begin_(begin) {}

  // Call after each minibatch with data. `samples` is the largest count of any stream, without
  // gaps.
  void Add(std::size_t samples, bool end_of_sweep) {
    if (result_.minibatches == 0) result_.first = Since(start_);
    result_.samples += samples;
    ++result_.minibatches;
    in_sweep_ = true;
    if (end_of_sweep) EndSweep();
  }

  json::Bench Finish() {
    if (in_sweep_) EndSweep();
    return result_;
  }

 private:
  void EndSweep() {
    const Clock::time_point end = Clock::now();
    result_.sweeps.push_back(Seconds(end - begin_));
    begin_ = end;
    in_sweep_ = false;
  }

  json::Bench result_;
  Clock::time_point start_, begin_;
  bool in_sweep_ = false;
};

// Returns the seconds that the C library takes to copy `bytes` bytes in `pieces` pieces from
// uncached memory, on `threads` threads with separate memory: a lower bound for delivering the
// data.
inline double CopySeconds(std::size_t bytes, std::size_t pieces, unsigned threads = 1) {
  if (bytes == 0 || pieces == 0 || threads == 0) return 0;
  const std::size_t size = std::max<std::size_t>(bytes / pieces, 1);
  std::atomic<unsigned> ready{0};
  const auto copy = [&](std::size_t count, Clock::time_point& begin, Clock::time_point& end) {
    const std::vector<char> from(std::max<std::size_t>(64 << 20, 2 * size), 1);
    std::vector<char> to(size);
    std::size_t at = 0;
    for (++ready; ready < threads;) std::this_thread::yield();
    begin = Clock::now();
    for (std::size_t piece = 0; piece < count; ++piece) {
      if (at + size > from.size()) at = 0;
      std::memcpy(to.data(), from.data() + at, size);
      // Keeps the compiler from removing the unread copy.
      asm volatile("" : : "r"(to.data()) : "memory");
      at += size;
    }
    end = Clock::now();
  };
  std::vector<Clock::time_point> begin(threads), end(threads);
  std::vector<std::thread> others;
  for (unsigned id = 1; id < threads; ++id)
    others.emplace_back([&, id] { copy((pieces + id) / threads, begin[id], end[id]); });
  copy(pieces / threads, begin[0], end[0]);
  for (std::thread& other : others) other.join();
  return Seconds(*std::max_element(end.begin(), end.end()) - *std::min_element(begin.begin(), begin.end()));
}

// Returns a line of /proc/self/status in bytes: VmRSS is the resident memory, VmHWM its peak. 0 if
// there is none.
inline std::size_t Memory(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.compare(0, name.size() + 1, name + ":") == 0)
      return std::stoull(line.substr(name.size() + 1)) * 1024;
  return 0;
}

// A digest that is equal for readers that deliver the same minibatches in the same order. Columns
// that belong to no sequence are ignored, because their contents are unspecified.
class Digest {
 public:
  void Add(const json::Minibatch& minibatch) {
    Add(static_cast<std::uint64_t>(minibatch.end_of_sweep));
    Add(static_cast<std::uint64_t>(minibatch.end_of_epoch));
    for (const json::StreamMinibatch& part : minibatch.streams) Add(part);
  }

  std::uint64_t Value() const { return hash_; }

 private:
  void Add(std::uint64_t word) {
    hash_ = (hash_ ^ word) * 0x9e3779b97f4a7c15;
    hash_ ^= hash_ >> 32;
  }

  void Add(const void* data, std::size_t size) {
    const char* at = static_cast<const char*>(data);
    std::uint64_t word = 0;
    for (; size >= sizeof word; at += sizeof word, size -= sizeof word) {
      std::memcpy(&word, at, sizeof word);
      Add(word);
    }
    word = size;
    std::memcpy(&word, at, size);
    Add(word);
  }

  void Add(const json::StreamMinibatch& part) {
    Add(part.steps);
    Add(part.lanes);
    for (const json::Record& record : part.records) {
      Add(record.sequence);
      Add(record.lane);
      Add(static_cast<std::uint64_t>(record.begin));
      Add(record.end);
    }
    if (part.sparse) {
      Add(part.values, part.nonzeros * part.ValueSize());
      Add(part.indices, part.nonzeros * sizeof *part.indices);
      Add(part.column_offsets, (part.Columns() + 1) * sizeof *part.column_offsets);
      return;
    }
    const std::size_t size = part.Bytes() / std::max<std::size_t>(part.Columns(), 1);
    const std::vector<bool> filled = part.Filled();
    for (std::size_t column = 0; column < filled.size(); ++column)
      if (filled[column]) Add(static_cast<const char*>(part.values) + column * size, size);
  }

  std::uint64_t hash_ = 0;
};

}  // namespace bench

#endif  // CNTK_READER_CPP_TESTS_BENCH_HPP
