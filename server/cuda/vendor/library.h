// NVIDIA's libraries, opened when something first needs them: the plug-in loads, and says what is
// missing, on machines without them.
#ifndef CHX_SERVER_CUDA_VENDOR_LIBRARY_H_
#define CHX_SERVER_CUDA_VENDOR_LIBRARY_H_

#include <dlfcn.h>

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace chx::server::cuda {

struct LibraryNames {
  std::string title;               // "cuBLAS 12 or 13"
  std::string without;             // "there are no products of float matrices"
  std::string variable;            // names a file to be tried first, or is "off"
  std::vector<std::string> files;  // what it may be called, the best first
};

// Looked for beside the plug-in, where the dynamic linker looks, and in the toolkit's usual places.
// `load` takes the functions out of it; false if some are not there. The library is never closed.
// The outcome is a line on standard error; a kBackend error also says what was tried.
absl::Status OpenLibrary(const LibraryNames& names, absl::FunctionRef<bool(void* library)> load);

template <typename Function>
bool LoadFunction(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_VENDOR_LIBRARY_H_
