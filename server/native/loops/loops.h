// The inner loops of kernels, compiled once per instruction set and chosen when the daemon starts.
// All sets give the same bits.
#ifndef CHX_SERVER_NATIVE_LOOPS_LOOPS_H_
#define CHX_SERVER_NATIVE_LOOPS_LOOPS_H_

#include <cstdint>
#include <vector>

#include "ops/dtype.h"
#include "server/kernels/elementwise_fns.h"

namespace chx::server::native {

// n elements of a few operands: data[0] is the output, strides are in bytes. The output may be
// exactly one of the inputs, else it does not overlap them.
using Loop = void (*)(char* const* data, const int64_t* strides, int64_t n);

// The parts of a reduction over accumulators, whose type only they know. What they compute is
// described in server/kernels/reduce_ops.h; `first` is the reduction index of the first element.
struct ReduceLoops {
  int64_t acc_size;
  void (*init)(void* accs, int64_t n);
  // Gathers n elements at a stride into one accumulator.
  void (*row)(const char* x, int64_t stride, int64_t n, int64_t first, void* acc);
  // Gathers `rows` rows of `n` dense elements into n accumulators.
  void (*columns)(const char* x, int64_t row_stride, int64_t rows, int64_t n, int64_t first,
                  void* accs);
  void (*combine)(void* accs, const void* others, int64_t n);
  void (*finish)(const void* accs, int64_t n, char* out);
};

enum class ReduceOp { kSum, kMax, kMin, kArgMax, kArgMin, kLogSumExp, kProd };
inline constexpr int kNumReduceOps = 7;

// Softmax cross entropy of one row of dense scores. The first returns logsumexp(x) - x[label];
// the second writes (softmax(x) - onehot(label)) * gy.
using CrossEntropyRow = void (*)(const char* x, int64_t n, int64_t label, char* loss);
using CrossEntropyGradRow = void (*)(const char* x, int64_t n, int64_t label, const char* gy,
                                     char* gx);

// softmax of dense elements of one floating type or, if `log`, its logarithm.
struct SoftmaxLoops {
  void (*row)(bool log, const void* x, int64_t n, void* y);
  // Of n <= max_columns neighbouring columns; `after` elements lie between the starts of rows.
  int64_t max_columns;
  void (*columns)(bool log, const void* x, int64_t rows, int64_t after, int64_t n, void* y);
  // The gradient of a row, from its result y.
  void (*grad_row)(bool log, const void* y, const void* gy, int64_t n, void* gx);
};

// An LSTM's cell for one sample and its gradient; see ops/defs/recurrent.cc.
struct LstmLoops {
  void (*cell)(const void* x, const void* h, const void* c, int64_t n, void* c_next, void* h_next);
  void (*grad)(const void* x, const void* h, const void* c, const void* gc, const void* gh,
               int64_t n, void* gz, void* gc_before);
};

// `count` rows of n dense elements each, which begin `step` elements apart.
struct NormRows {
  int64_t count;
  int64_t step;
  int64_t n;
};

// Parts of batch normalization of one floating type T: of one channel, or of n neighbouring ones
// (`columns`). What belongs to a channel is in arrays of T or double, with one element or n. What
// they sum is added to double.
struct NormLoops {
  // sums += x.
  void (*sum)(bool columns, const void* x, const NormRows& rows, double* sums);
  // squares += (x - mean)^2.
  void (*square)(bool columns, const void* x, const NormRows& rows, const void* mean,
                 double* squares);
  // y = (x - mean) * scale + shift.
  void (*apply)(bool columns, const void* x, const NormRows& rows, const void* mean,
                const void* scale, const void* shift, void* y);
  // squares += (x - mean)^2, sums += gy, products += gy (x - mean).
  void (*grad_sums)(bool columns, const void* x, const void* gy, const NormRows& rows,
                    const void* mean, double* squares, double* sums, double* products);
  // gx = gy * scale + (x - mean) * slope + shift.
  void (*grad)(bool columns, const void* x, const void* gy, const NormRows& rows, const void* mean,
               const void* scale, const void* slope, const void* shift, void* gx);
};

struct LayerLoops;    // layer_loops.h
struct PoolingLoops;  // pooling_loops.h
struct UpdateLoops;   // update_loops.h

struct LoopSet {
  const char* name;  // of the instruction set: baseline, avx2 or avx512
  // By position in the list of server/kernels/elementwise_fns.h, then by dtype; null where the
  // list does not include the dtype.
  Loop unary_float[kernels::UnaryFloatFns::kSize][kNumDtypes];
  Loop unary_same[kernels::UnarySameFns::kSize][kNumDtypes];
  Loop unary_logical[kernels::UnaryLogicalFns::kSize][kNumDtypes];
  Loop unary_test[kernels::UnaryTestFns::kSize][kNumDtypes];
  Loop arithmetic[kernels::BinaryArithmeticFns::kSize][kNumDtypes];
  Loop binary_float[kernels::BinaryFloatFns::kSize][kNumDtypes];
  Loop comparison[kernels::ComparisonFns::kSize][kNumDtypes];
  Loop logical[kernels::LogicalFns::kSize][kNumDtypes];
  Loop where[kNumDtypes];
  Loop cast[kNumDtypes][kNumDtypes];  // [from][to]
  ReduceLoops reduce[kNumReduceOps][kNumDtypes];
  CrossEntropyRow cross_entropy[kNumDtypes];
  CrossEntropyGradRow cross_entropy_grad[kNumDtypes];
  SoftmaxLoops softmax[kNumDtypes];
  LstmLoops lstm[kNumDtypes];
  NormLoops norm[kNumDtypes];  // float32 and float64
  const LayerLoops* layers;
  const PoolingLoops* pooling;
  const UpdateLoops* updates;
};

// The sets that were compiled and that this processor runs: first the baseline, last the fastest.
std::vector<const LoopSet*> SupportedLoops();

// The fastest of them.
const LoopSet& Loops();

inline Loop CastLoop(Dtype from, Dtype to) {
  return Loops().cast[static_cast<int>(from)][static_cast<int>(to)];
}

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_LOOPS_LOOPS_H_
