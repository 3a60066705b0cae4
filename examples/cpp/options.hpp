// The command line of the training examples, which can be stopped and resumed.

#ifndef EXAMPLES_OPTIONS_HPP
#define EXAMPLES_OPTIONS_HPP

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

struct Options {
  std::string data = "examples/data";
  std::string checkpoint;
  std::uint64_t epochs = 20;
  std::uint64_t checkpoint_every = 0;  // Minibatches; 0: after each epoch only.
  std::uint64_t stop_after = 0;        // Minibatches; 0: never.
  bool resume = false;
};

[[noreturn]] inline void Usage(const char* program) {
  std::fprintf(stderr,
               "usage: %s [--data DIR] [--epochs N] [--checkpoint FILE [--checkpoint-every N]]\n"
               "       [--resume [FILE]] [--stop-after N]\n",
               program);
  std::exit(2);
}

// `options` are the defaults.
inline Options ParseOptions(int argc, char** argv, Options options = {}) {
  int i = 1;
  const auto value = [&] { return i + 1 < argc ? std::string(argv[++i]) : (Usage(argv[0]), std::string()); };
  const auto number = [&] { return std::strtoull(value().c_str(), nullptr, 10); };
  for (; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--data") {
      options.data = value();
    } else if (option == "--epochs") {
      options.epochs = number();
    } else if (option == "--checkpoint") {
      options.checkpoint = value();
    } else if (option == "--checkpoint-every") {
      options.checkpoint_every = number();
    } else if (option == "--stop-after") {
      options.stop_after = number();
    } else if (option == "--resume") {
      options.resume = true;
      if (i + 1 < argc && argv[i + 1][0] != '-') options.checkpoint = value();
    } else if (option[0] != '-') {
      options.data = option;
    } else {
      Usage(argv[0]);
    }
  }
  if (options.resume && options.checkpoint.empty()) Usage(argv[0]);
  return options;
}

#endif  // EXAMPLES_OPTIONS_HPP
