// A LoopSet for the instruction set that this file is compiled for. Included by loops_<isa>.cc.
// Everything defined here is in the including file's own namespace and everything used is inlined
// by force (server/kernels/hd.h): nothing compiled for one processor is linked into another's set.
#include "server/engine/stop_requested.h"
#include "server/native/elementwise_loops.inc"
#include "server/native/loops.h"
#include "server/native/norm_loops.inc"
#include "server/native/recurrent_loops.inc"
#include "server/native/reduction_loops.inc"
#include "server/native/softmax_loops.inc"

namespace chx::server::native {
namespace CHX_LOOPS_NAMESPACE {

template <typename T>
inline constexpr bool kFloatType = kernels::kIsFloat<kernels::Compute<T>>;

// The dtypes that a list of formulas is for.
struct AnyType {
  template <typename T>
  static constexpr bool kHas = true;
};
struct FloatsOnly {
  template <typename T>
  static constexpr bool kHas = kFloatType<T>;
};
struct BoolOnly {
  template <typename T>
  static constexpr bool kHas = std::is_same<T, kernels::Bool>::value;
};

template <typename Fn, typename Filter, template <typename, typename> class Runner, typename... Ts>
void FillFn(Loop* row, kernels::TypeList<Ts...>) {
  int i = 0;
  (..., [&] {
    if constexpr (Filter::template kHas<Ts>) row[i] = Runner<Fn, Ts>::Run;
    ++i;
  }());
}

template <typename Filter, template <typename, typename> class Runner, typename... Fns>
void FillFns(Loop (*rows)[kNumDtypes], kernels::FnList<Fns...>) {
  (FillFn<Fns, Filter, Runner>(*rows++, kernels::AllTypes()), ...);
}

template <typename From, typename... Tos>
void FillCasts(Loop* row, kernels::TypeList<Tos...>) {
  ((*row++ = UnaryLoop<CastTo<From, Tos>, From, Tos>), ...);
}

template <template <typename> class Gather, typename... Ts>
void FillReduce(ReduceLoops* row, kernels::TypeList<Ts...>) {
  ((*row++ = MakeReduceLoops<Gather<Ts>>()), ...);
}

template <typename T>
void FillType(LoopSet* set, int dtype) {
  FillCasts<T>(set->cast[dtype], kernels::AllTypes());
  using Bits = typename BitsOfSize<sizeof(T)>::Type;
  set->where[dtype] = WhereLoop<Bits>;
  if constexpr (kFloatType<T>) {
    set->reduce[static_cast<int>(ReduceOp::kLogSumExp)][dtype] =
        MakeReduceLoops<LogSumExpGather<T>>();
    set->softmax[dtype] = Softmax<T>::kLoops;
    set->lstm[dtype] = Lstm<T>::kLoops;
    set->cross_entropy[dtype] = CrossEntropyLoop<T>;
    set->cross_entropy_grad[dtype] = CrossEntropyGradLoop<T>;
  }
}

template <typename... Ts>
void FillTypes(LoopSet* set, kernels::TypeList<Ts...>) {
  int dtype = 0;
  (FillType<Ts>(set, dtype++), ...);
}

LoopSet MakeLoopSet(const char* name) {
  LoopSet set = {};
  set.name = name;
  FillFns<FloatsOnly, UnarySame>(set.unary_float, kernels::UnaryFloatFns());
  FillFns<AnyType, UnarySame>(set.unary_same, kernels::UnarySameFns());
  FillFns<BoolOnly, UnaryToBool>(set.unary_logical, kernels::UnaryLogicalFns());
  FillFns<AnyType, UnaryToBool>(set.unary_test, kernels::UnaryTestFns());
  FillFns<AnyType, BinarySame>(set.arithmetic, kernels::BinaryArithmeticFns());
  FillFns<FloatsOnly, BinarySame>(set.binary_float, kernels::BinaryFloatFns());
  FillFns<AnyType, BinaryToBool>(set.comparison, kernels::ComparisonFns());
  FillFns<BoolOnly, BinaryToBool>(set.logical, kernels::LogicalFns());
  FillReduce<SumGather>(set.reduce[static_cast<int>(ReduceOp::kSum)], kernels::AllTypes());
  FillReduce<MaxGather>(set.reduce[static_cast<int>(ReduceOp::kMax)], kernels::AllTypes());
  FillReduce<MinGather>(set.reduce[static_cast<int>(ReduceOp::kMin)], kernels::AllTypes());
  FillReduce<ArgMaxGather>(set.reduce[static_cast<int>(ReduceOp::kArgMax)], kernels::AllTypes());
  FillReduce<ArgMinGather>(set.reduce[static_cast<int>(ReduceOp::kArgMin)], kernels::AllTypes());
  FillReduce<ProdGather>(set.reduce[static_cast<int>(ReduceOp::kProd)], kernels::AllTypes());
  FillTypes(&set, kernels::AllTypes());
  set.norm[static_cast<int>(Dtype::kFloat32)] = Norm<float>::kLoops;
  set.norm[static_cast<int>(Dtype::kFloat64)] = Norm<double>::kLoops;
  return set;
}

}  // namespace CHX_LOOPS_NAMESPACE

#define CHX_STRING_(text) #text
#define CHX_STRING(text) CHX_STRING_(text)

const LoopSet& CHX_LOOPS_FUNCTION() {
  static const LoopSet set = CHX_LOOPS_NAMESPACE::MakeLoopSet(CHX_STRING(CHX_LOOPS_NAMESPACE));
  return set;
}

}  // namespace chx::server::native
