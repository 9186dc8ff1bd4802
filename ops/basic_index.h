// Basic indexing: integers, slices, None and Ellipsis, as an attribute and applied to a spec.
#ifndef CHX_OPS_BASIC_INDEX_H_
#define CHX_OPS_BASIC_INDEX_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ops/array_spec.h"
#include "ops/attr.h"

namespace chx {

// Builds the encoded form, item by item. Each item is a word of its kind, and a slice three words
// more; kind of a slice says which of its three are given.
class IndexBuilder {
 public:
  IndexBuilder& Int(int64_t i);
  IndexBuilder& Slice(absl::optional<int64_t> start, absl::optional<int64_t> stop,
                      absl::optional<int64_t> step);
  IndexBuilder& NewAxis();
  IndexBuilder& Ellipsis();
  AttrValue Build() const { return AttrValue::Index(encoded_); }

 private:
  Ints encoded_;
};

// The view that an encoded index selects. kIndex errors: an integer out of range, too many
// indices; the encoding itself is checked too.
absl::Status ApplyBasicIndex(absl::string_view op, absl::Span<const int64_t> encoded,
                             const ArraySpec& in, ArraySpec* out);

}  // namespace chx

#endif  // CHX_OPS_BASIC_INDEX_H_
