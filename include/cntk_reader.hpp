// cntk_reader.hpp: reads CNTK's training data. C++17, header only, over cntk_reader.h.
//
//     #include <cntk_reader.hpp>
//     namespace cr = cntk::reader;
//
//     cr::Reader reader = cr::Reader::FromFile("digits.cntk");
//     cr::EpochConfiguration epoch;
//     epoch.minibatch_size = 32;
//     epoch.sweeps = 10;
//     reader.StartEpoch(epoch);
//     for (const cr::Minibatch& minibatch : reader.Minibatches()) {
//       cr::StreamMinibatch features = minibatch["features"];
//       cr::StreamMinibatch labels = minibatch["labels"];
//       for (std::size_t column = 0; column < features.Columns(); ++column)
//         model.Learn(features.Column<float>(column), labels.Column<float>(column));
//       model.Update(features.Samples());
//     }
//
// Configurations. A file or a text in CNTK's configuration language (FromFile, FromText), or the same with
// types:
//
//     cr::Reader reader = cr::Reader::Open(
//         {cr::CtfDeserializer("train.ctf").Dense("features", 784).Sparse("labels", 10)});
//
// Names. Methods have the names that CNTK's users know: GetMinibatch, StartEpoch, SetConfiguration, GetState,
// SetState, GetStreamDescriptions.
//
// Ownership. Reader, Minibatch and Checkpoint own what they stand for and can be moved; Minibatch can also be
// copied, which counts a reference and copies no data. StreamMinibatch, Sequence and Span are views: they
// live as long as the minibatch that they came from, and a minibatch may outlive its reader. A moved-from
// object may be destroyed or assigned to; any other use of it throws an Error of kind kInvalidArgument.
//
// Errors. Every failure is thrown as cntk::reader::Error, which is a std::runtime_error and knows the place.
// Views check what costs nothing a sample (stream names, element types) and leave columns and steps to the
// caller, as operator[] of std::vector does.
//
// Threads. One thread at a time may use a Reader; Minibatches, their views and Errors do not change and may
// be shared. Fork. A Reader belongs to the process that opened it: in a child it throws an Error of kind
// kState.
//
// The parts: cntk_reader/reader.hpp, canceller.hpp, minibatch.hpp, stream.hpp, configuration.hpp, speech.hpp
// and images.hpp (typed configurations), user.hpp and transform.hpp (formats and transforms of the user's
// own), convert.hpp (conversions of files), files.hpp (files elsewhere, and compressed ones), process.hpp
// (threads, log, version), callback.hpp (what keeps exceptions inside callbacks) and error.hpp.

#ifndef CNTK_READER_HPP
#define CNTK_READER_HPP

#if defined(__cplusplus) && __cplusplus < 201703L
#error "cntk_reader.hpp needs C++17: compile with -std=c++17."
#endif

#include <cntk_reader/canceller.hpp>
#include <cntk_reader/configuration.hpp>
#include <cntk_reader/convert.hpp>
#include <cntk_reader/error.hpp>
#include <cntk_reader/files.hpp>
#include <cntk_reader/images.hpp>
#include <cntk_reader/minibatch.hpp>
#include <cntk_reader/process.hpp>
#include <cntk_reader/reader.hpp>
#include <cntk_reader/speech.hpp>
#include <cntk_reader/stream.hpp>
#include <cntk_reader/transform.hpp>
#include <cntk_reader/user.hpp>

#endif  // CNTK_READER_HPP
