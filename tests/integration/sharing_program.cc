// A C++ process beside Python ones: sharing_program ADDRESS CAPABILITY NAME. Opens both, adds them,
// publishes the sum as "from-cpp", waits until its standard input ends, and says what goes wrong.
#include <cstdio>
#include <string>

#include "client/array.h"
#include "client/session.h"
#include "client/sharing.h"

namespace {

absl::Status Run(const std::string& address, const std::string& capability,
                 const std::string& name) {
  CHX_ASSIGN_OR_RETURN(const chx::Ref<chx::Session> session, chx::Session::Connect(address));
  const chx::Array opened = chx::OpenShared(*session, capability);
  CHX_RETURN_IF_ERROR(opened.status());
  CHX_ASSIGN_OR_RETURN(const chx::Published published, chx::Lookup(*session, name));
  const chx::ArrayMap map = published.map();
  chx::ArrayMap results;
  for (const auto& [path, array] : map) results.emplace(path, array + opened);
  CHX_RETURN_IF_ERROR(chx::Publish(*session, "from-cpp", results).status());
  CHX_ASSIGN_OR_RETURN(const auto names, chx::Names(*session, "from-"));
  std::printf("%zu %s %d\n", names.size(), names[0].name.c_str(),
              static_cast<int>(names[0].arrays));
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return session->Close();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const absl::Status status = Run(argv[1], argv[2], argv[3]);
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
