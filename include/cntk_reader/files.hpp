// User-defined file systems, mounted with MountFileSystem, and compression of files.
//
// Part of <cntk_reader.hpp>; include that.

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

/// Thrown by a FileSystem or RemoteFile for a temporary failure. The call is retried at most four
/// times within four seconds. Every other exception is final; its text becomes part of the Error of
/// the call that needed the file.
class TryAgain : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A file of a FileSystem. Its methods are called on any thread, several at once.
class RemoteFile {
 public:
  RemoteFile() = default;
  RemoteFile(const RemoteFile&) = delete;
  RemoteFile& operator=(const RemoteFile&) = delete;
  virtual ~RemoteFile() = default;

  /// Returns the size of the file in bytes.
  virtual std::uint64_t Size() const = 0;
  /// Reads up to `capacity` bytes from `offset` on into `buffer`, and returns their number, which
  /// is 0 only at the end of the file.
  virtual std::size_t ReadAt(std::uint64_t offset, void* buffer, std::size_t capacity) const = 0;
  /// Returns at most 256 bytes that are equal as long as the file's content is, such as an ETag or
  /// a version. If empty, changes are detected by the size alone.
  virtual std::string Identity() const { return {}; }
};

/// A user-defined file system, such as an object store. Open is called on any thread, several calls
/// at once, and must not use readers of this library.
class FileSystem {
 public:
  FileSystem() = default;
  FileSystem(const FileSystem&) = delete;
  FileSystem& operator=(const FileSystem&) = delete;
  virtual ~FileSystem() = default;

  /// Opens a file for reading. `path` is the whole path with its scheme.
  virtual std::unique_ptr<RemoteFile> Open(const std::string& path) const = 0;
};

namespace detail {

/// The callbacks of a FileSystem. The userdata is an Owner, and files are RemoteFiles.
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
    bool is_temporary = false;
    const auto run = [&] {
      try {
        body();
      } catch (const TryAgain&) {
        is_temporary = true;
        throw;
      }
    };
    if (RunCallback(failure, "The file system", run) == 0) return CNTK_READER_FILE_STATUS_OK;
    return is_temporary ? CNTK_READER_FILE_STATUS_AGAIN : CNTK_READER_FILE_STATUS_FAILED;
  }

  static std::int32_t OpenFile(void* userdata, const char* path, std::size_t length, void** file,
                               cntk_reader_failure* failure) noexcept {
    return Guard(failure, [&] {
      auto opened = (*static_cast<Owner*>(userdata))->Open(std::string(path, length));
      if (!opened) throw std::runtime_error("Open returned no file.");
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
      if (own.size() > capacity) throw std::runtime_error("Identity returned more than 256 bytes.");
      std::memcpy(identity, own.data(), own.size());
      *length = own.size();
    });
  }
};

}  // namespace detail

/// Mounts a file system: it opens all data files whose paths begin with `scheme` and "://", from
/// now on and in the whole process. It replaces an earlier one for the same scheme; open files stay
/// with the file system that opened them. A null pointer unmounts. May be called from any thread.
inline void MountFileSystem(std::string_view scheme, std::shared_ptr<const FileSystem> system) {
  if (!system)
    return detail::Call(cntk_reader_file_system_mount, scheme.data(), scheme.size(),
                        static_cast<const cntk_reader_file_system*>(nullptr));
  auto owner = std::make_unique<detail::FileSystemTable::Owner>(std::move(system));
  const auto table = detail::FileSystemTable::Make(owner.get());
  detail::Call(cntk_reader_file_system_mount, scheme.data(), scheme.size(), &table);
  owner.release();
}

/// Compresses a file with zstd, in frames that can be decompressed independently. A reader treats
/// the output like the plain file if its name ends in ".zst". `progress` gets frames instead of
/// sequences. `level` is from 1 (fastest) to 22 (smallest); 0 is the default, 9.
inline void CompressFile(const std::string& input, const std::string& output,
                         const ProgressCallback& progress = {}, std::uint32_t level = 0) {
  cntk_reader_conversion conversion = CNTK_READER_CONVERSION_INIT;
  conversion.compression_level = level;
  detail::Convert(CNTK_READER_DIRECTION_TO_ZSTD, input, output, conversion, progress);
}

}  // namespace reader
}  // namespace cntk

#endif  // CNTK_READER_FILES_HPP
