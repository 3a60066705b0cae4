// Data files that are not in the file system, and compressed ones: derive from FileSystem, and mount it.
//
// A part of <cntk_reader.hpp>, which is the one to include.

#ifndef CNTK_READER_FILES_HPP
#define CNTK_READER_FILES_HPP

#include <cntk_reader.h>

#include <cntk_reader/callback.hpp>
#include <cntk_reader/convert.hpp>
#include <cntk_reader/error.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace cntk {
namespace reader {

/// Throw it from a FileSystem or a RemoteFile if the same call may succeed a little later. It is called
/// again, at most four times within four seconds. Every other exception is final; its text comes with the
/// Error of the call that needed the file.
class TryAgain : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A file of a FileSystem. Its methods are called by any thread, several at once.
class RemoteFile {
 public:
  RemoteFile() = default;
  RemoteFile(const RemoteFile&) = delete;
  RemoteFile& operator=(const RemoteFile&) = delete;
  virtual ~RemoteFile() = default;

  /// Bytes of the file.
  virtual std::uint64_t Size() const = 0;
  /// Reads at most `capacity` bytes from `offset` on into `buffer`, at least one, and returns their number; 0
  /// only at the file's end.
  virtual std::size_t ReadAt(std::uint64_t offset, void* buffer, std::size_t capacity) const = 0;
  /// Bytes that are equal as long as the file's content is, such as an ETag or a version: 256 at most. If it
  /// is empty, changes of the file are noticed by its size alone.
  virtual std::string Identity() const { return {}; }
};

/// A file system of your own, such as an object store. Its method is called by any thread, several at once,
/// and must not use readers of this library.
class FileSystem {
 public:
  FileSystem() = default;
  FileSystem(const FileSystem&) = delete;
  FileSystem& operator=(const FileSystem&) = delete;
  virtual ~FileSystem() = default;

  /// Opens a file for reading; `path` is the whole path, with its scheme.
  virtual std::unique_ptr<RemoteFile> Open(const std::string& path) const = 0;
};

namespace detail {

/// The callbacks of a FileSystem. The userdata is a shared pointer to it, the files are RemoteFiles.
struct FileSystemTable {
  using Owner = std::shared_ptr<const FileSystem>;

  static cntk_reader_file_system Make(Owner* owner) {
    auto table = Sized<cntk_reader_file_system>();
    table.userdata = owner;
    table.open_file = Callback(OpenFile);
    table.get_size = Callback(GetSize);
    table.read_at = Callback(ReadAt);
    table.get_identity = Callback(GetIdentity);
    table.close_file = Callback(DeleteHandle<RemoteFile>);
    table.finalizer = Callback(Delete<Owner>);
    return table;
  }

  template <typename Body>
  static std::int32_t Guard(cntk_reader_failure* failure, Body&& body) noexcept {
    bool is_passing = false;
    const auto run = [&] {
      try {
        body();
      } catch (const TryAgain&) {
        is_passing = true;
        throw;
      }
    };
    if (RunCallback(failure, "The file system", run) == 0) return CNTK_READER_FILE_STATUS_OK;
    return is_passing ? CNTK_READER_FILE_STATUS_AGAIN : CNTK_READER_FILE_STATUS_FAILED;
  }

  static std::int32_t OpenFile(void* userdata, const char* path, std::size_t length, void** file,
                               cntk_reader_failure* failure) noexcept {
    return Guard(failure, [&] {
      auto opened = (*static_cast<Owner*>(userdata))->Open(std::string(path, length));
      if (!opened) throw std::runtime_error("Open has returned no file.");
      *file = opened.release();
    });
  }

  static std::int32_t GetSize(void*, void* file, std::uint64_t* size, cntk_reader_failure* failure) noexcept {
    return Guard(failure, [&] { *size = static_cast<RemoteFile*>(file)->Size(); });
  }

  static std::int32_t ReadAt(void*, void* file, std::uint64_t offset, void* buffer, std::size_t capacity,
                             std::size_t* count, cntk_reader_failure* failure) noexcept {
    return Guard(failure, [&] { *count = static_cast<RemoteFile*>(file)->ReadAt(offset, buffer, capacity); });
  }

  static std::int32_t GetIdentity(void*, void* file, void* identity, std::size_t capacity,
                                  std::size_t* length, cntk_reader_failure* failure) noexcept {
    return Guard(failure, [&] {
      const std::string own = static_cast<RemoteFile*>(file)->Identity();
      if (own.size() > capacity) throw std::runtime_error("Identity has returned more than 256 bytes.");
      std::memcpy(identity, own.data(), own.size());
      *length = own.size();
    });
  }
};

}  // namespace detail

/// Has a file system open all data files whose paths begin with `scheme` and "://", from now on and in the
/// whole process. It takes the place of an earlier one for this scheme; an empty pointer ends that. Files
/// that are open stay with the file system that has opened them. May be called from any thread.
inline void MountFileSystem(std::string_view scheme, std::shared_ptr<const FileSystem> system) {
  if (!system)
    return detail::Call(cntk_reader_file_system_mount, scheme.data(), scheme.size(),
                        static_cast<const cntk_reader_file_system*>(nullptr));
  auto owner = std::make_unique<detail::FileSystemTable::Owner>(std::move(system));
  const auto table = detail::FileSystemTable::Make(owner.get());
  detail::Call(cntk_reader_file_system_mount, scheme.data(), scheme.size(), &table);
  owner.release();
}

/// Compresses any file by zstd, in frames that are unpacked one by one: a reader reads it like the plain file
/// if its name ends in ".zst". `progress` gets frames in place of sequences. `level` is zstd's, from 1, the
/// fastest, to 22, the smallest; 0 is the default, 9.
inline void CompressFile(const std::string& input, const std::string& output,
                         const ProgressCallback& progress = {}, std::uint32_t level = 0) {
  cntk_reader_conversion conversion = CNTK_READER_CONVERSION_INIT;
  conversion.compression_level = level;
  detail::Convert(CNTK_READER_DIRECTION_TO_ZSTD, input, output, conversion, progress);
}

}  // namespace reader
}  // namespace cntk

#endif  // CNTK_READER_FILES_HPP
