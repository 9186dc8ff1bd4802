#include "ops/spatial_windows.h"

#include "ops/error.h"

namespace chx {

absl::Status ExpandSpatial(absl::string_view op, absl::string_view what, const AttrValue& attr,
                           int ndim, int64_t least, Dims* dims) {
  const Ints& given = attr.ints();
  if (given.size() != 1 && given.size() != static_cast<size_t>(ndim)) {
    return DimensionError("[", op, "] expects ", what, " to be a number, or ", ndim,
                          " of them, got ", attr.ToString());
  }
  *dims = Dims(ndim, 0);
  for (int i = 0; i < ndim; ++i) {
    const int64_t value = given.size() == 1 ? given[0] : given[i];
    if (value < least || value > INT32_MAX) {
      return ValueError("[", op, "] expects ", what, " from ", least, " to 2^31, got ", value);
    }
    (*dims)[i] = value;
  }
  return absl::OkStatus();
}

int64_t WindowCount(int64_t size, int64_t kernel, int64_t stride, int64_t pad, bool cover_all) {
  const int64_t room = size + 2 * pad - kernel + (cover_all ? stride - 1 : 0);
  return room < 0 ? 0 : room / stride + 1;
}

absl::StatusOr<Dims> WindowCounts(absl::string_view op, const Shape& shape, const Dims& kernel,
                                  const Dims& stride, const Dims& pad, bool cover_all) {
  Dims counts = SpatialOf(shape);
  for (int i = 0; i < counts.size(); ++i) {
    counts[i] = WindowCount(shape[i + 2], kernel[i], stride[i], pad[i], cover_all);
    if (counts[i] == 0) {
      return DimensionError("[", op, "] expects windows that fit into the padded array, got ",
                            kernel.ToString(), " for ", shape.ToString());
    }
  }
  return counts;
}

Shape WithSpatial(int64_t first, int64_t second, const Dims& spatial) {
  Shape shape = {first, second};
  for (const int64_t dim : spatial) shape.push_back(dim);
  return shape;
}

}  // namespace chx
