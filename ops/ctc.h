// Logarithms of probabilities in connectionist temporal classification, for its compositions and
// kernels.
#ifndef CHX_OPS_CTC_H_
#define CHX_OPS_CTC_H_

namespace chx {
namespace ctc {

// Of zero. Finite: differences of infinities are NaN. A multiple of it for each step is in the
// range of float32.
inline constexpr double kNever = -1e30;
inline constexpr double kImpossible = 1e29;  // a loss above this is one of no path

}  // namespace ctc
}  // namespace chx

#endif  // CHX_OPS_CTC_H_
