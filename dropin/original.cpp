#include "original.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <stdexcept>
#include <string>

namespace cntk_dropin {
namespace {

// The path from which this module was loaded.
std::string own_path() {
  static const char here = 0;
  Dl_info info;
  return dladdr(&here, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

}  // namespace

cntk_host::Reader* create_by_original(const cntk_host::ConfigParameters& config) {
  const std::string path = own_path() + ".original";
  if (access(path.c_str(), F_OK) != 0) {
    throw std::runtime_error(
        "The configuration names a deserializer of binary data (lattices), which this reader does not pack, "
        "and "
        "CNTK's own reader, which could take over, is not there: '" +
        path + "'.");
  }
  // The host loads modules with these flags, and never unloads them; neither does this.
  void* const module = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (module == nullptr)
    throw std::runtime_error("Plugin not found: '" + path + "' (error: " + dlerror() + ")");
  void* const create = dlsym(module, "CreateCompositeDataReader");
  if (create == nullptr) {
    throw std::runtime_error("Symbol 'CreateCompositeDataReader' not found in plugin '" + path + "'");
  }
  return reinterpret_cast<cntk_host::CreateCompositeDataReader*>(create)(&config);
}

}  // namespace cntk_dropin
