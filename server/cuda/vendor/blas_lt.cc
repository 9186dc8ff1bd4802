#include "server/cuda/vendor/blas_lt.h"

#include <utility>

#include "ops/error.h"
#include "server/cuda/vendor/blas.h"
#include "server/cuda/vendor/library.h"

namespace chx::server::cuda {
namespace {

constexpr size_t kMostChoices = 1024;

bool LoadAll(void* library, BlasLtLibrary* blas) {
  return LoadFunction(library, "cublasLtCreate", &blas->create) &&
         LoadFunction(library, "cublasLtDestroy", &blas->destroy) &&
         LoadFunction(library, "cublasLtGetStatusString", &blas->status_string) &&
         LoadFunction(library, "cublasLtMatmulDescCreate", &blas->create_product) &&
         LoadFunction(library, "cublasLtMatmulDescDestroy", &blas->destroy_product) &&
         LoadFunction(library, "cublasLtMatmulDescSetAttribute", &blas->set_product) &&
         LoadFunction(library, "cublasLtMatrixLayoutCreate", &blas->create_layout) &&
         LoadFunction(library, "cublasLtMatrixLayoutDestroy", &blas->destroy_layout) &&
         LoadFunction(library, "cublasLtMatmulPreferenceCreate", &blas->create_preference) &&
         LoadFunction(library, "cublasLtMatmulPreferenceDestroy", &blas->destroy_preference) &&
         LoadFunction(library, "cublasLtMatmulPreferenceSetAttribute", &blas->set_preference) &&
         LoadFunction(library, "cublasLtMatmulAlgoGetHeuristic", &blas->choose) &&
         LoadFunction(library, "cublasLtMatmul", &blas->multiply);
}

// The greatest power of two that divides the address, of at most 256.
uint64_t Alignment(const void* address) {
  const auto bits = reinterpret_cast<uintptr_t>(address) | 256;
  return bits & (~bits + 1);
}

}  // namespace

absl::StatusOr<const BlasLtLibrary*> OpenBlasLt() {
  static const auto* const result = new absl::StatusOr<const BlasLtLibrary*>(
      OpenFunctions({"cuBLASLt 12 or 13",
                     "a product's bias takes another kernel",
                     "CHXD_CUBLASLT",
                     {"libcublasLt.so.13", "libcublasLt.so.12"}},
                    LoadAll));
  return *result;
}

// The library's objects for one kind of product.
struct BlasLt::Choice {
  explicit Choice(const BlasLtLibrary* functions) : library(functions) {}
  ~Choice() {
    if (product != nullptr) library->destroy_product(product);
    for (cublasLtMatrixLayout_t layout : {a, b, c}) {
      if (layout != nullptr) library->destroy_layout(layout);
    }
  }
  Choice(const Choice&) = delete;
  Choice& operator=(const Choice&) = delete;

  const BlasLtLibrary* const library;
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t a = nullptr;
  cublasLtMatrixLayout_t b = nullptr;
  cublasLtMatrixLayout_t c = nullptr;
  bool found = false;
  cublasLtMatmulAlgo_t algorithm;
};

BlasLt::BlasLt() = default;

BlasLt::~BlasLt() {
  choices_.clear();
  if (handle_ != nullptr) library_->destroy(handle_);
}

absl::Status BlasLt::Check(const char* what, cublasStatus_t status) const {
  return BlasStatus(what, status, library_->status_string(status));
}

absl::Status BlasLt::Open() {
  if (handle_ != nullptr) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(library_, OpenBlasLt());
  cublasLtHandle_t handle = nullptr;
  const cublasStatus_t made = library_->create(&handle);
  CHX_RETURN_IF_ERROR(BlasHandleStatus("cublasLtCreate", made, library_->status_string(made)));
  handle_ = handle;
  return absl::OkStatus();
}

absl::Status BlasLt::Choose(const GemmCall& call, size_t workspace, Choice* choice) const {
  const BlasLtLibrary& lt = *library_;
  CHX_RETURN_IF_ERROR(Check("cublasLtMatmulDescCreate",
                            lt.create_product(&choice->product, ComputeType(call), CUDA_R_32F)));
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    return Check("cublasLtMatmulDescSetAttribute",
                 lt.set_product(choice->product, attribute, &value, sizeof(value)));
  };
  const cublasOperation_t op_a = call.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t op_b = call.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
  CHX_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSA, op_a));
  CHX_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSB, op_b));
  CHX_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue));
  CHX_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, call.bias));
  const cudaDataType_t type = BlasType(call.dtype);
  const auto layout = [&](cublasLtMatrixLayout_t* made, bool transposed, int64_t rows,
                          int64_t columns, int64_t leading) {
    if (transposed) std::swap(rows, columns);
    return Check("cublasLtMatrixLayoutCreate",
                 lt.create_layout(made, type, rows, columns, leading));
  };
  CHX_RETURN_IF_ERROR(layout(&choice->a, call.transpose_a, call.m, call.k, call.lda));
  CHX_RETURN_IF_ERROR(layout(&choice->b, call.transpose_b, call.k, call.n, call.ldb));
  CHX_RETURN_IF_ERROR(layout(&choice->c, false, call.m, call.n, call.ldc));
  cublasLtMatmulPreference_t preference = nullptr;
  CHX_RETURN_IF_ERROR(Check("cublasLtMatmulPreferenceCreate", lt.create_preference(&preference)));
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    if (status != CUBLAS_STATUS_SUCCESS) return;
    status = lt.set_preference(preference, attribute, &value, sizeof(value));
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace);
  const auto aligned = [](const void* address) {
    return static_cast<uint32_t>(Alignment(address));
  };
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, aligned(call.a));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, aligned(call.b));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, aligned(call.c));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, aligned(call.c));
  cublasLtMatmulHeuristicResult_t result = {};
  int count = 0;
  if (status == CUBLAS_STATUS_SUCCESS) {
    status = lt.choose(handle_, choice->product, choice->a, choice->b, choice->c, choice->c,
                       preference, 1, &result, &count);
  }
  lt.destroy_preference(preference);
  choice->found = status == CUBLAS_STATUS_SUCCESS && count > 0 &&
                  result.state == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= workspace;
  choice->algorithm = result.algo;
  return absl::OkStatus();
}

absl::StatusOr<BlasLt::Choice*> BlasLt::ChoiceFor(const GemmCall& call, size_t workspace) {
  const uint64_t alignments = Alignment(call.a) | Alignment(call.b) << 9 | Alignment(call.c) << 18 |
                              Alignment(call.bias) << 27;
  const Key key = {static_cast<int>(call.dtype),
                   call.transpose_a,
                   call.transpose_b,
                   call.tf32,
                   call.m,
                   call.n,
                   call.k,
                   call.lda,
                   call.ldb,
                   call.ldc,
                   alignments,
                   workspace};
  if (choices_.size() >= kMostChoices) choices_.clear();
  std::unique_ptr<Choice>& choice = choices_[key];
  if (choice == nullptr) {
    auto made = std::make_unique<Choice>(library_);
    CHX_RETURN_IF_ERROR(Choose(call, workspace, made.get()));
    choice = std::move(made);
  }
  return choice.get();
}

absl::StatusOr<bool> BlasLt::Knows(const GemmCall& call, size_t workspace) {
  CHX_ASSIGN_OR_RETURN(const Choice* const choice, ChoiceFor(call, workspace));
  return choice->found;
}

absl::StatusOr<bool> BlasLt::Multiply(cudaStream_t stream, absl::Span<char> workspace,
                                      const GemmCall& call) {
  CHX_ASSIGN_OR_RETURN(Choice* const choice, ChoiceFor(call, workspace.size()));
  if (!choice->found) return false;
  CHX_RETURN_IF_ERROR(
      Check("cublasLtMatmulDescSetAttribute",
            library_->set_product(choice->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &call.bias,
                                  sizeof(call.bias))));
  const float one = 1;
  const float zero = 0;
  const cublasStatus_t status = library_->multiply(
      handle_, choice->product, &one, call.a, choice->a, call.b, choice->b, &zero, call.c,
      choice->c, call.c, choice->c, &choice->algorithm, workspace.data(), workspace.size(), stream);
  if (status == CUBLAS_STATUS_INVALID_VALUE || status == CUBLAS_STATUS_NOT_SUPPORTED) {
    choice->found = false;  // it finds out only now
    return false;
  }
  CHX_RETURN_IF_ERROR(Check("cublasLtMatmul", status));
  return true;
}

}  // namespace chx::server::cuda
