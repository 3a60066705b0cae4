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
//         labels.ForEachValue<float>(column, [&](std::size_t index, float value) {
//           if (value != 0) model.Learn(features.Column<float>(column), index);
//         });
//       model.Update(features.Samples());
//     }
//
// Configurations. A file or text in CNTK's configuration language (FromFile, FromText), or typed
// options:
//
//     cr::Reader reader = cr::Reader::Open(
//         {cr::CtfDeserializer("train.ctf").Dense("features", 784).Sparse("labels", 10)});
//
// Names. Methods have CNTK's names: GetMinibatch, StartEpoch, SetConfiguration, GetState, SetState,
// GetStreamDescriptions.
//
// Ownership. Reader, Minibatch and Checkpoint own their data and can be moved. Copying a Minibatch
// adds a reference and copies no data. StreamMinibatch, Sequence and Span are views, valid as long
// as the minibatch that they came from, so `minibatch["x"]` of a temporary minibatch does not
// compile. A minibatch may outlive its reader. A moved-from object of any class may be destroyed or
// assigned to; any other use throws an Error of kind kInvalidArgument that says so. (In a
// user-defined deserializer that error becomes one of kind kUser, as all exceptions there. An Error
// is copied when it is moved. Structs with public members only have no such check.)
//
// Errors. Every failure is thrown as cntk::reader::Error, a std::runtime_error that knows its
// location; an exception of a user-defined deserializer or transform becomes one of kind kUser.
// Views check stream names and element types, but not the numbers of columns and steps,
// like operator[] of std::vector.
//
// Threads. Only one thread at a time may use a Reader. Minibatches, their views and Errors are
// immutable and may be shared. Fork. A Reader belongs to the process that opened it: in a child it
// throws an Error of kind kState.
//
// The parts: cntk_reader/reader.hpp, canceller.hpp, minibatch.hpp, stream.hpp, configuration.hpp,
// speech.hpp and images.hpp (typed options), user.hpp and transform.hpp (user-defined deserializers
// and transforms), convert.hpp (file conversions), files.hpp (mounted file systems, compression),
// process.hpp (threads, log, version), callback.hpp (exceptions in callbacks) and error.hpp.

#ifndef CNTK_READER_HPP
#define CNTK_READER_HPP

#if defined(__cplusplus) && __cplusplus < 201703L
#error "cntk_reader.hpp needs C++17: compile with -std=c++17."
// There is no such file, so compilers stop here, instead of listing hundreds of further errors.
#include <cntk_reader/needs_c++17>
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
