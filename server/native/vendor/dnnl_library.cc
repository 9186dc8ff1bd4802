#include "server/native/vendor/dnnl_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <climits>
#include <string>

namespace chx::server::native {
namespace {

constexpr char kFile[] = "libdnnl.so.2";

// A wheel has it beside the program, a system where libraries are.
void* Open() {
  char path[PATH_MAX];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof(path));
  const std::string program(path, size > 0 ? static_cast<size_t>(size) : 0);
  const std::string beside = program.substr(0, program.rfind('/') + 1) + kFile;
  void* const found = dlopen(beside.c_str(), RTLD_NOW | RTLD_LOCAL);
  return found != nullptr ? found : dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
}

template <typename Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

const DnnlLibrary* Load() {
  void* const library = Open();
  if (library == nullptr) return nullptr;
  static DnnlLibrary functions;
#define CHX_DNNL_FIND(name) &&Find(library, #name, &functions.name)
  const bool complete = Find(library, "omp_set_num_threads", &functions.omp_set_num_threads)
      CHX_DNNL_FUNCTIONS(CHX_DNNL_FIND);
#undef CHX_DNNL_FIND
  // Layouts of structures may change with a major version.
  if (!complete || functions.dnnl_version()->major != DNNL_VERSION_MAJOR) return nullptr;
  // What is worth keeping is kept by its users.
  functions.dnnl_set_primitive_cache_capacity(0);
  if (functions.dnnl_engine_create(&functions.engine, dnnl_cpu, 0) != dnnl_success) return nullptr;
  return &functions;
}

}  // namespace

const DnnlLibrary* Dnnl() {
  static const DnnlLibrary* const library = Load();
  // Once for each thread, which keeps it.
  thread_local const bool is_alone = library != nullptr && (library->omp_set_num_threads(1), true);
  return is_alone ? library : nullptr;
}

bool HasBfloat16Instructions() {
  static const bool has = __builtin_cpu_supports("avx512bf16") != 0;
  return has;
}

}  // namespace chx::server::native
