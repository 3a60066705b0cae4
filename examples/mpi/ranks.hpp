// The processes of an MPI program. They run in lockstep, and if one fails, all fail.
//
// A rank that throws between two collective calls would leave the others waiting forever. So work
// that may fail is run by Sum or Agree, which report a failure together with the sums, and every
// rank stops at the same point.

#ifndef EXAMPLES_RANKS_HPP
#define EXAMPLES_RANKS_HPP

#include <mpi.h>

#include <climits>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <vector>

// Thrown on ranks that have not failed if another one has.
struct OtherRankFailed : std::runtime_error {
  OtherRankFailed() : std::runtime_error("stops because another rank has failed") {}
};

class Ranks {
 public:
  Ranks(int* argc, char*** argv) {
    MPI_Init(argc, argv);
    int count = 0, own = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &count);
    MPI_Comm_rank(MPI_COMM_WORLD, &own);
    count_ = static_cast<std::uint64_t>(count);
    own_ = static_cast<std::uint64_t>(own);
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  ~Ranks() { MPI_Finalize(); }

  std::uint64_t Count() const { return count_; }
  std::uint64_t Own() const { return own_; }
  bool IsFirst() const { return own_ == 0; }

  // Runs `work` on every rank, and adds up its results in `values`. If `work` throws on any rank,
  // every rank throws: that rank its exception, the others OtherRankFailed.
  template <typename Work>
  void Sum(std::vector<double>& values, Work&& work) {
    std::exception_ptr own;
    try {
      work();
    } catch (...) {
      own = std::current_exception();
    }
    values.push_back(own ? 1 : 0);
    MPI_Allreduce(MPI_IN_PLACE, values.data(), Int(values.size()), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    const bool failed = values.back() != 0;
    values.pop_back();
    if (!failed) return;
    agreed_ = true;
    if (own) std::rethrow_exception(own);
    throw OtherRankFailed();
  }

  // Runs `work` on every rank, like Sum, without a sum.
  template <typename Work>
  void Agree(Work&& work) {
    std::vector<double> nothing;
    Sum(nothing, work);
  }

  // Returns whether a number is equal on all ranks.
  bool IsSame(std::uint64_t number) const {
    std::uint64_t bounds[2] = {number, ~number};
    MPI_Allreduce(MPI_IN_PLACE, bounds, 2, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    return bounds[0] == ~bounds[1];
  }

  // Returns the concatenated arrays of all ranks on rank 0; nothing elsewhere.
  std::vector<std::uint64_t> Gather(const std::vector<std::uint64_t>& own) const {
    const int size = Int(own.size());
    std::vector<int> sizes(count_), starts(count_);
    MPI_Gather(&size, 1, MPI_INT, sizes.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
    int total = 0;
    for (std::size_t rank = 0; rank < sizes.size(); total += sizes[rank++]) starts[rank] = total;
    std::vector<std::uint64_t> all(static_cast<std::size_t>(total));
    MPI_Gatherv(own.data(), size, MPI_UINT64_T, all.data(), sizes.data(), starts.data(), MPI_UINT64_T, 0,
                MPI_COMM_WORLD);
    return all;
  }

  // Ends all processes after an exception that the other ranks have not been told about.
  void AbortUnlessAgreed() const {
    if (!agreed_) MPI_Abort(MPI_COMM_WORLD, 1);
  }

 private:
  static int Int(std::size_t size) {
    if (size > INT_MAX) throw std::length_error("too much for one message");
    return static_cast<int>(size);
  }

  std::uint64_t count_ = 1, own_ = 0;
  bool agreed_ = false;
};

#endif  // EXAMPLES_RANKS_HPP
