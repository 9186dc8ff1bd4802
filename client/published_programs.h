// Programs under names: what the public API and the bindings are made of.
#ifndef CHX_CLIENT_PUBLISHED_PROGRAMS_H_
#define CHX_CLIENT_PUBLISHED_PROGRAMS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/ref.h"
#include "client/programs.h"
#include "client/sharing.h"

namespace chx::internal {

// As Publish of arrays. An error names what the programs change in this session.
absl::StatusOr<uint64_t> PublishPrograms(Session& session, const std::string& name,
                                         absl::Span<RecordedProgram* const> programs,
                                         const PublishOptions& options);

// What is under a name: arrays, or programs and only a version and a structure beside them.
struct Found {
  Published arrays;
  std::vector<Ref<RecordedProgram>> programs;
};
absl::StatusOr<Found> Find(Session& session, const std::string& name, const LookupOptions& options);

}  // namespace chx::internal

#endif  // CHX_CLIENT_PUBLISHED_PROGRAMS_H_
