// What a session keeps under names: answers to commands.
#ifndef CHX_PROTO_SAVED_ARRAYS_H_
#define CHX_PROTO_SAVED_ARRAYS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ops/array_spec.h"

namespace chx {

// The answer to command::QuerySaved with a name.
struct SavedTree {
  struct Array {
    ArraySpec spec;
    bool requires_grad = false;  // in the default graph
    bool has_grad = false;
  };
  uint64_t version = 0;  // another one after each SaveArrays
  std::string tree;
  std::vector<Array> arrays;
};
std::string EncodeSavedTree(const SavedTree& saved);
absl::StatusOr<SavedTree> DecodeSavedTree(absl::string_view data);

// The answer to command::QuerySaved without a name.
std::string EncodeNames(const std::vector<std::string>& names);
absl::StatusOr<std::vector<std::string>> DecodeNames(absl::string_view data);

// The answer to command::SaveArrays.
std::string EncodeCount(uint64_t count);
absl::StatusOr<uint64_t> DecodeCount(absl::string_view data);

}  // namespace chx

#endif  // CHX_PROTO_SAVED_ARRAYS_H_
