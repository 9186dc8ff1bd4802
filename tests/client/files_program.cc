// files_program ADDRESS IN OUT [compressed]: loads arrays and saves them, in the formats that the
// files' endings name. For numpy_files_test.py.
#include <cstdio>
#include <string>

#include "absl/strings/match.h"
#include "client/files/npz.h"
#include "client/files/safetensors.h"
#include "client/session.h"

namespace chx {
namespace {

absl::StatusOr<ArrayMap> Load(Session& session, const std::string& path) {
  if (absl::EndsWith(path, ".npz")) return LoadNpz(session, path);
  if (absl::EndsWith(path, ".safetensors")) return LoadSafetensors(session, path);
  Array array = LoadNpy(session, path);
  CHX_RETURN_IF_ERROR(array.status());
  return ArrayMap{{"array", array}};
}

absl::Status Save(const std::string& path, const ArrayMap& arrays, bool compressed) {
  if (absl::EndsWith(path, ".npz")) return SaveNpz(path, arrays, {compressed});
  if (absl::EndsWith(path, ".safetensors")) return SaveSafetensors(path, arrays);
  return SaveNpy(path, arrays.begin()->second);
}

absl::Status Main(const std::string& address, const std::string& in, const std::string& out,
                  bool compressed) {
  CHX_ASSIGN_OR_RETURN(const Ref<Session> session, Session::Connect(address));
  CHX_ASSIGN_OR_RETURN(const ArrayMap arrays, Load(*session, in));
  return Save(out, arrays, compressed);
}

}  // namespace
}  // namespace chx

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const absl::Status status = chx::Main(argv[1], argv[2], argv[3], argc > 4);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
