// Kernels of ops/defs/loss_sequences.cc: the recursions of a sequence step by step, in rows that
// stay in the cache.
#include <algorithm>
#include <cstring>

#include "ops/ctc.h"
#include "ops/error.h"
#include "server/kernels/dispatch.h"
#include "server/native/kernels/register_kernels.h"
#include "server/native/loops/contiguous.h"
#include "server/native/loops/layer_loops.h"
#include "server/native/loops/loops.h"
#include "server/native/loops/nest.h"
#include "server/native/runtime/device.h"
#include "server/native/runtime/stops.h"

namespace chx::server::native {
namespace {

using ctc::kImpossible;
using ctc::kNever;

// Rows are computed to a multiple of this, and have places that are never reached around them.
constexpr int64_t kPlaces = 16;
constexpr int64_t kPlacesAround = 2;

// log_probs, targets, input_lengths, target_lengths: dense.
struct CtcSequences {
  KernelTensor x;
  KernelTensor targets;
  KernelTensor durations;
  KernelTensor lengths;
  int64_t blank = 0;

  int64_t steps() const { return x.shape[0]; }
  int64_t batch() const { return x.shape[1]; }
  int64_t classes() const { return x.shape[2]; }
  int64_t labels() const { return targets.shape[1]; }
  int64_t places() const { return 2 * labels() + 1; }
  int64_t row() const { return (places() + kPlaces - 1) / kPlaces * kPlaces; }
  int64_t duration(int64_t n) const { return Numbers(durations)[n]; }
  int64_t length(int64_t n) const { return Numbers(lengths)[n]; }
  int64_t label(int64_t n, int64_t i) const { return Numbers(targets)[n * labels() + i]; }

 private:
  static const int64_t* Numbers(const KernelTensor& tensor) {
    return reinterpret_cast<const int64_t*>(tensor.data);
  }
};

absl::Status CheckLengths(const KernelArgs& args, const CtcSequences& s) {
  absl::Status status;
  const auto in_range = [&](const char* what, int64_t n, int64_t number, int64_t end) {
    if (number >= 0 && number < end) return true;
    status = IndexError("[", args.op.name, "] expects ", what, " from 0 to ", end - 1, ", got ",
                        number, " in sequence ", n);
    return false;
  };
  StopWatch watch;
  for (int64_t n = 0; n < s.batch() && !watch.After(1); ++n) {
    if (!in_range("input_lengths", n, s.duration(n), s.steps() + 1)) return status;
    if (!in_range("target_lengths", n, s.length(n), s.labels() + 1)) return status;
    for (int64_t i = 0; i < s.length(n) && !watch.After(1); ++i) {
      if (!in_range("labels", n, s.label(n, i), s.classes())) return status;
    }
  }
  return CheckNotStopped(args.op.name);  // otherwise not all have been checked
}

absl::StatusOr<CtcSequences> PrepareCtc(const KernelArgs& args) {
  CtcSequences s;
  CHX_ASSIGN_OR_RETURN(s.x, Contiguous(args, args.in(0), args.in(0).dtype));
  CHX_ASSIGN_OR_RETURN(s.targets, Contiguous(args, args.in(1), Dtype::kInt64));
  CHX_ASSIGN_OR_RETURN(s.durations, Contiguous(args, args.in(2), Dtype::kInt64));
  CHX_ASSIGN_OR_RETURN(s.lengths, Contiguous(args, args.in(3), Dtype::kInt64));
  s.blank = args.attrs[0].AsInt();
  CHX_RETURN_IF_ERROR(CheckLengths(args, s));
  return s;
}

// One sequence's path, and rows to compute its steps in.
template <typename T>
class CtcPath {
 public:
  static int64_t Bytes(const CtcSequences& s) {
    const int64_t row = s.row() + 2 * kPlacesAround;
    return s.places() * static_cast<int64_t>(sizeof(int64_t)) +
           5 * row * static_cast<int64_t>(sizeof(T));
  }

  CtcPath(const CtcSequences& s, int64_t n, char* memory)
      : s_(s),
        n_(n),
        end_(2 * s.length(n) + 1),
        row_(s.row()),
        symbols_(reinterpret_cast<int64_t*>(memory)) {
    T* rows = reinterpret_cast<T*>(memory + s.places() * static_cast<int64_t>(sizeof(int64_t)));
    std::fill(rows, rows + 5 * (row_ + 2 * kPlacesAround), static_cast<T>(kNever));
    for (T** row : {&now_, &next_, &skips_, &emissions_, &shares_}) {
      *row = rows + kPlacesAround;
      rows += row_ + 2 * kPlacesAround;
    }
    for (int64_t place = 0; place < end_; ++place) {
      symbols_[place] = place % 2 == 0 ? s.blank : s.label(n, place / 2);
      if (place >= 2 && symbols_[place] != symbols_[place - 2]) skips_[place] = T(0);
    }
  }

  // alpha of all steps, `stride` elements apart. Returns the loss.
  T Forward(T* alpha, int64_t stride) {
    const CtcLoops& loops = Loops().layers->ctc[static_cast<int>(kernels::kDtypeOf<T>)];
    StopWatch watch;
    now_[0] = T(0);
    for (int64_t step = 0; step < s_.steps() && !watch.After(4 * row_); ++step) {
      if (step < s_.duration(n_)) {
        ReadEmissions(step);
        if (step == 0) {
          for (int64_t place = 0; place < std::min<int64_t>(end_, 2); ++place) {
            next_[place] = emissions_[place];
          }
        } else {
          loops.step(now_, now_ - 1, now_ - 2, skips_, emissions_, row_, next_);
        }
        std::swap(now_, next_);
        if (step == 0) next_[0] = static_cast<T>(kNever);
      }
      std::memcpy(alpha + step * stride, now_, static_cast<size_t>(s_.places()) * sizeof(T));
    }
    T max = static_cast<T>(kNever);
    for (int64_t place = std::max<int64_t>(0, end_ - 2); place < end_; ++place) {
      max = kernels::Maximum()(max, now_[place]);
    }
    T sum(0);
    for (int64_t place = std::max<int64_t>(0, end_ - 2); place < end_; ++place) {
      sum += kernels::Exp(now_[place] - max);
    }
    return -(max + kernels::Log(sum));
  }

  // gx of all steps, from alpha; `stride` and `gx_stride` elements apart.
  void Backward(const T* alpha, int64_t stride, T loss, T gy, T* gx, int64_t gx_stride) {
    const CtcLoops& loops = Loops().layers->ctc[static_cast<int>(kernels::kDtypeOf<T>)];
    const bool possible = !(static_cast<double>(loss) > kImpossible);
    const int64_t duration = s_.duration(n_);
    StopWatch watch;
    for (int64_t step = s_.steps() - 1; step >= 0 && !watch.After(4 * row_ + s_.classes());
         --step) {
      T* const grads = gx + step * gx_stride;
      FillZero(grads, s_.classes() * static_cast<int64_t>(sizeof(T)));
      if (!possible || step >= duration) continue;
      ReadEmissions(step);
      if (step == duration - 1) {
        for (int64_t place = std::max<int64_t>(0, end_ - 2); place < end_; ++place) {
          next_[place] = emissions_[place];
        }
      } else {
        // What skips to a place belongs to that place.
        loops.step(now_, now_ + 1, now_ + 2, skips_ + 2, emissions_, row_, next_);
      }
      loops.share(alpha + step * stride, next_, emissions_, s_.places(), static_cast<double>(loss),
                  static_cast<double>(-gy), shares_);
      for (int64_t place = 0; place < end_; ++place) grads[symbols_[place]] += shares_[place];
      std::swap(now_, next_);
    }
  }

 private:
  // The logarithm of each place's symbol in a step, which is not infinite.
  void ReadEmissions(int64_t step) {
    const T* const x =
        reinterpret_cast<const T*>(s_.x.data) + (step * s_.batch() + n_) * s_.classes();
    for (int64_t place = 0; place < end_; ++place) {
      emissions_[place] = kernels::Maximum()(x[symbols_[place]], static_cast<T>(kNever));
    }
  }

  const CtcSequences& s_;
  const int64_t n_;
  const int64_t end_;  // how many places the path has
  const int64_t row_;
  int64_t* const symbols_;
  T* now_;
  T* next_;
  T* skips_;
  T* emissions_;
  T* shares_;
};

constexpr int64_t kMostCtcTasks = 64;  // with memory of their own

// Calls run(n, path of sequence n) for all sequences.
template <typename T, typename Fn>
absl::Status ForSequences(const KernelArgs& args, const CtcSequences& s, Fn&& run) {
  const int64_t tasks = std::min(s.batch(), kMostCtcTasks);
  const int64_t bytes = CtcPath<T>::Bytes(s);
  CHX_ASSIGN_OR_RETURN(void* const memory, args.scratch.Allocate(tasks * bytes + 1));
  // An element takes some exponentials and a logarithm.
  const int64_t work = 16 * s.steps() * s.row() * (s.batch() / std::max<int64_t>(1, tasks));
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, work));
  PoolOf(args).ParallelFor(tasks, grain, [&](int64_t begin, int64_t end) {
    StopWatch watch;
    for (int64_t task = begin; task < end; ++task) {
      char* const rows = static_cast<char*>(memory) + task * bytes;
      const int64_t last = s.batch() * (task + 1) / tasks;
      for (int64_t n = s.batch() * task / tasks; n < last && !watch.After(s.row()); ++n) {
        CtcPath<T> path(s, n, rows);
        run(n, path);
      }
    }
  });
  return absl::OkStatus();
}

// float32 and float64; the composition has the others.
template <typename Fn>
absl::Status VisitCtcType(Dtype dtype, Fn&& run) {
  if (dtype == Dtype::kFloat32) return run(float());
  if (dtype == Dtype::kFloat64) return run(double());
  return absl::UnimplementedError("");
}

absl::Status RunCtcForward(const KernelArgs& args) {
  return VisitCtcType(args.in(0).dtype, [&](auto zero) -> absl::Status {
    using T = decltype(zero);
    CHX_ASSIGN_OR_RETURN(const CtcSequences s, PrepareCtc(args));
    T* const losses = reinterpret_cast<T*>(args.out(0).data);
    T* const alpha = reinterpret_cast<T*>(args.out(1).data);
    return ForSequences<T>(args, s, [&](int64_t n, CtcPath<T>& path) {
      losses[n] = path.Forward(alpha + n * s.places(), s.batch() * s.places());
    });
  });
}

absl::Status RunCtcGrad(const KernelArgs& args) {
  return VisitCtcType(args.out(0).dtype, [&](auto zero) -> absl::Status {
    using T = decltype(zero);
    CHX_ASSIGN_OR_RETURN(const CtcSequences s, PrepareCtc(args));
    const Dtype dtype = args.out(0).dtype;
    CHX_ASSIGN_OR_RETURN(const KernelTensor losses, Contiguous(args, args.in(4), dtype));
    CHX_ASSIGN_OR_RETURN(const KernelTensor alpha, Contiguous(args, args.in(5), dtype));
    CHX_ASSIGN_OR_RETURN(const KernelTensor gy, Contiguous(args, args.in(6), dtype));
    const auto read = [](const KernelTensor& tensor) {
      return reinterpret_cast<const T*>(tensor.data);
    };
    T* const gx = reinterpret_cast<T*>(args.out(0).data);
    return ForSequences<T>(args, s, [&](int64_t n, CtcPath<T>& path) {
      path.Backward(read(alpha) + n * s.places(), s.batch() * s.places(), read(losses)[n],
                    read(gy)[n], gx + n * s.classes(), s.batch() * s.classes());
    });
  });
}

}  // namespace

void RegisterLossSequences(KernelTable& table) {
  table.Set("ctc_forward", RunCtcForward);
  table.Set("ctc_grad", RunCtcGrad);
}

}  // namespace chx::server::native
