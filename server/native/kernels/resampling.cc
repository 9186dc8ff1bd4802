// Kernel of ops/defs/resampling.cc, a composition too: one pass instead of one for each axis and
// step.
#include <algorithm>
#include <cmath>
#include <memory>
#include <type_traits>

#include "ops/error.h"
#include "server/kernels/dispatch.h"
#include "server/native/kernels/register_kernels.h"
#include "server/native/loops/contiguous.h"
#include "server/native/loops/nest.h"
#include "server/native/runtime/device.h"
#include "server/native/runtime/stops.h"

namespace chx::server::native {
namespace {

// Of a row of the image: a line of it is kept on the side.
constexpr int64_t kMaxColumns = 4096;

// Along one axis, an element lies between two of the image: first * (1 - share) + second * share.
template <typename T>
struct Place {
  int64_t first;
  int64_t second;
  T share;
};

// How an axis is resampled, in the composition's own numbers.
struct ResampledAxis {
  int64_t from;
  int64_t to;
  double step;  // in elements of the image
  bool scaled;  // step is not the quotient of the sizes
  bool align;

  int64_t NearestOf(int64_t i) const {
    const int64_t at =
        scaled ? static_cast<int64_t>(std::floor(static_cast<double>(i) * step)) : i * from / to;
    return std::min(at, from - 1);
  }
  template <typename T>
  Place<T> PlaceOf(int64_t i) const {
    if (from == to) return {i, i, T(0)};
    const auto last = static_cast<double>(from - 1);
    double position = 0;
    if (align) {
      position = to > 1 ? static_cast<double>(i) * (last / static_cast<double>(to - 1)) : 0.0;
    } else {
      position = std::max((static_cast<double>(i) + 0.5) * step - 0.5, 0.0);
    }
    const double first = std::min(std::floor(position), last);
    return {static_cast<int64_t>(first), static_cast<int64_t>(std::min(first + 1, last)),
            static_cast<T>(position - first)};
  }
};

// Rows [begin, end) of the results of all planes.
template <typename T>
void ResampleRows(const ResampledAxis& rows, const ResampledAxis& columns, const Place<T>* places,
                  const T* x, T* y, int64_t begin, int64_t end) {
  T line[kMaxColumns];
  StopWatch watch;
  for (int64_t i = begin; i < end && !watch.After(columns.from + columns.to); ++i) {
    const Place<T> row = rows.PlaceOf<T>(i % rows.to);
    const T* const plane = x + i / rows.to * rows.from * columns.from;
    const T* const a = plane + row.first * columns.from;
    const T* const b = plane + row.second * columns.from;
    const T* mixed = a;
    if (rows.from != rows.to) {
      for (int64_t j = 0; j < columns.from; ++j) {
        line[j] = a[j] * (T(1) - row.share) + b[j] * row.share;
      }
      mixed = line;
    }
    T* const to = y + i * columns.to;
    if (columns.from == columns.to) {
      std::copy_n(mixed, columns.to, to);
      continue;
    }
    for (int64_t j = 0; j < columns.to; ++j) {
      const Place<T>& place = places[j];
      to[j] = mixed[place.first] * (T(1) - place.share) + mixed[place.second] * place.share;
    }
  }
}

// The same; `places`: of columns. Rows that are equal to the one before are copied.
template <typename T>
void RepeatRows(const ResampledAxis& rows, const ResampledAxis& columns, const int64_t* places,
                const T* x, T* y, int64_t begin, int64_t end) {
  const T* last = nullptr;
  StopWatch watch;
  for (int64_t i = begin; i < end && !watch.After(columns.to); ++i) {
    const int64_t row = i / rows.to * rows.from + rows.NearestOf(i % rows.to);
    const T* const from = x + row * columns.from;
    T* const to = y + i * columns.to;
    if (from == last) {
      std::copy_n(to - columns.to, columns.to, to);
      continue;
    }
    for (int64_t j = 0; j < columns.to; ++j) to[j] = from[places[j]];
    last = from;
  }
}

// x (N, C, W) or (N, C, H, W); size, scale_factor, mode, align_corners. Nearest; linear or bilinear
// in the floats that are not rounded on the way.
absl::Status RunInterpolate(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  const int spatial = out.ndim() - 2;
  const bool nearest = args.attrs[2].AsInt() == 0;
  if (spatial > 2) return absl::UnimplementedError("");
  if (!nearest && out.dtype != Dtype::kFloat32 && out.dtype != Dtype::kFloat64) {
    return absl::UnimplementedError("");
  }
  if (out.size() == 0) return absl::OkStatus();
  const auto axis = [&](int d) {
    const int64_t from = args.in(0).shape[d];
    const bool scaled = args.attrs[1].has_value();
    const double step = scaled ? 1 / args.attrs[1].AsFloat()
                               : static_cast<double>(from) / static_cast<double>(out.shape[d]);
    return ResampledAxis{from, out.shape[d], step, scaled, args.attrs[3].AsBool()};
  };
  const ResampledAxis rows = spatial == 2 ? axis(2) : ResampledAxis{1, 1, 1, false, false};
  const ResampledAxis columns = axis(out.ndim() - 1);
  if (columns.from > kMaxColumns || columns.to > kMaxColumns) return absl::UnimplementedError("");
  CHX_ASSIGN_OR_RETURN(const KernelTensor in, Contiguous(args, args.in(0), out.dtype));
  // Rows of the result, of all planes: as many as are worth a thread.
  const int64_t grain = std::max<int64_t>(1, kGrain / 4 / columns.to);
  const int64_t total = out.size() / columns.to;
  if (nearest) {
    const std::unique_ptr<int64_t[]> places(new int64_t[columns.to]);
    for (int64_t j = 0; j < columns.to; ++j) places[j] = columns.NearestOf(j);
    kernels::VisitItemSize(ItemSize(out.dtype), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      PoolOf(args).ParallelFor(total, grain, [&](int64_t begin, int64_t end) {
        RepeatRows(rows, columns, places.get(), reinterpret_cast<const T*>(in.data),
                   reinterpret_cast<T*>(out.data), begin, end);
      });
    });
    return absl::OkStatus();
  }
  kernels::VisitFloat(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (std::is_floating_point_v<T>) {
      const std::unique_ptr<Place<T>[]> places(new Place<T>[columns.to]);
      for (int64_t j = 0; j < columns.to; ++j) places[j] = columns.PlaceOf<T>(j);
      PoolOf(args).ParallelFor(total, grain, [&](int64_t begin, int64_t end) {
        ResampleRows(rows, columns, places.get(), reinterpret_cast<const T*>(in.data),
                     reinterpret_cast<T*>(out.data), begin, end);
      });
    }
  });
  return absl::OkStatus();
}

}  // namespace

void RegisterResampling(KernelTable& table) { table.Set("interpolate", RunInterpolate); }

}  // namespace chx::server::native
