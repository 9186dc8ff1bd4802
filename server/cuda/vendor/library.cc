#include "server/cuda/vendor/library.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ops/error.h"
#include "server/log/log.h"

namespace chx::server::cuda {
namespace {

// The folder of the file that this function is in.
std::string OwnDirectory() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&OpenLibrary), &info) == 0 || info.dli_fname == nullptr)
    return "";
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

std::vector<std::string> Candidates(const LibraryNames& names, const char* given) {
  std::vector<std::string> paths;
  if (given != nullptr) paths.push_back(given);
  for (const std::string& file : names.files) {
    paths.push_back(OwnDirectory() + file);
    paths.push_back(file);
    for (const char* const directory :
         {"/usr/local/cuda/lib64/", "/usr/local/cuda/targets/x86_64-linux/lib/",
          "/usr/lib/x86_64-linux-gnu/", "/opt/cuda/lib64/"}) {
      paths.push_back(absl::StrCat(directory, file));
    }
  }
  return paths;
}

}  // namespace

absl::Status OpenLibrary(const LibraryNames& names, absl::FunctionRef<bool(void* library)> load) {
  const char* const given = std::getenv(names.variable.c_str());
  if (given != nullptr && std::string(given) == "off") {
    Log(LogLevel::kWarning, absl::StrCat("cuda: ", names.title, " is off; ", names.without));
    return MakeError(ErrorKind::kBackend, absl::StrCat("cuda: ", names.variable, " turns ",
                                                       names.title, " off; ", names.without));
  }
  std::vector<std::string> errors;
  for (const std::string& path : Candidates(names, given)) {
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      errors.push_back(dlerror());
      continue;
    }
    if (load(library)) {
      Log(LogLevel::kInfo, absl::StrCat("cuda: ", names.title, ": ", path));
      return absl::OkStatus();
    }
    dlclose(library);
    errors.push_back(absl::StrCat(path, ": too old"));
  }
  Log(LogLevel::kWarning, absl::StrCat("cuda: ", names.title, " was not found; ", names.without));
  return MakeError(
      ErrorKind::kBackend,
      absl::StrCat("cuda: no ", names.title, " was found: ", names.without, "; set ",
                   names.variable, " to its file (tried: ", absl::StrJoin(errors, "; "), ")"));
}

}  // namespace chx::server::cuda
