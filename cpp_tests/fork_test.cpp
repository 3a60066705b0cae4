// Forks: in the child, a reader returns errors instead of hanging.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <thread>

#include "data.hpp"

namespace {

using ForkTest = DataTest;

// Runs work in a child process. Returns whether it returned true within ten seconds.
template <typename Work>
bool InChild(Work work) {
#ifdef __SANITIZE_ADDRESS__
  // The sanitizer's locks stay locked in the child if another thread starts or allocates during the
  // fork. The pause lets prefetching threads finish.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
#endif
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    bool good = false;
    try {
      good = work();
    } catch (...) {
      // `good` stays false, which the exit code reports.
    }
    _exit(good ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

template <typename Work>
bool GivesStateError(Work&& work) {
  try {
    work();
  } catch (const cr::Error& error) {
    return error.Kind() == cr::ErrorKind::kState;
  }
  return false;
}

TEST_F(ForkTest, ReaderOfTheParentRefuses) {
  auto reader = std::make_unique<cr::Reader>(Open(Lines(100)));
  reader->StartEpoch(Sweep(1));
  reader->GetMinibatch();
  EXPECT_TRUE(InChild([&] {
    return GivesStateError([&] { reader->GetMinibatch(); }) &&
           GivesStateError([&] { reader->StartEpoch(Sweep(1)); }) &&
           GivesStateError([&] { reader->GetState(); }) && GivesStateError([&] { reader->SaveCheckpoint(); });
  }));
  EXPECT_TRUE(InChild([&] {
    reader.reset();
    return true;
  }));
  EXPECT_EQ(Rest(*reader).size(), 99u) << "the parent continues";
}

TEST_F(ForkTest, MinibatchesOfTheParentCanBeRead) {
  cr::Reader reader = Open(Lines(4));
  reader.StartEpoch(Sweep(4));
  cr::Minibatch minibatch = reader.GetMinibatch();
  EXPECT_TRUE(InChild([&] {
    const bool good = minibatch["x"].Values<float>()[2] == 1 && minibatch.Key(3) == "3";
    minibatch = cr::Minibatch();
    return good;
  }));
  EXPECT_EQ(minibatch["x"].Samples(), 4u);
}

TEST_F(ForkTest, ChildMayOpenItsOwnReader) {
  cr::Reader reader = Open(Lines(10));
  reader.StartEpoch(Sweep(1));
  reader.GetMinibatch();
  EXPECT_TRUE(InChild([&] {
    cr::Reader own = Open(Lines(10));
    own.StartEpoch(Sweep(2));
    return Rest(own).size() == 10;
  }));
}

}  // namespace
