// Arrays that sessions share with each other: answers to commands.
#ifndef CHX_PROTO_SHARED_NAMES_H_
#define CHX_PROTO_SHARED_NAMES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ops/array_spec.h"

namespace chx {

// The answer to command::OpenShared: what the array is. Its offset is the daemon's to know.
std::string EncodeSharedSpec(const ArraySpec& spec);
absl::StatusOr<ArraySpec> DecodeSharedSpec(absl::string_view data);

// What a program takes and gives.
struct SharedProgram {
  std::vector<ArraySpec> arguments;
  std::vector<ArraySpec> results;
};

// The answer to command::Lookup: a version of what is published under a name.
struct SharedTree {
  uint64_t version = 0;
  std::string structure;                                  // as the publisher gave it
  std::vector<std::pair<std::string, ArraySpec>> arrays;  // by their paths, in its order
  std::vector<SharedProgram> programs;                    // or these, and no arrays
};
std::string EncodeSharedTree(const SharedTree& tree);
absl::StatusOr<SharedTree> DecodeSharedTree(absl::string_view data);

// The answer to command::ListNames is a list of these.
struct SharedName {
  std::string tenant;
  std::string name;
  uint64_t version = 0;
  uint64_t arrays = 0;
  uint64_t bytes = 0;
};
std::string EncodeSharedNames(const std::vector<SharedName>& names);
absl::StatusOr<std::vector<SharedName>> DecodeSharedNames(absl::string_view data);

// Paths in command::Publish are lines.
std::string JoinPaths(const std::vector<std::string>& paths);
std::vector<std::string> SplitPaths(absl::string_view text);

}  // namespace chx

#endif  // CHX_PROTO_SHARED_NAMES_H_
