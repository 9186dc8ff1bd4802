// What cuDNN and cuSOLVER compute, for tests without a GPU: convolutions and recurrent networks
// from their definitions, decompositions by LAPACK. They refuse what the libraries refuse.
#ifndef CHX_SERVER_CUDA_TESTING_EMULATED_LIBRARIES_H_
#define CHX_SERVER_CUDA_TESTING_EMULATED_LIBRARIES_H_

#include <cstdint>

#include "server/cuda/vendor/dnn.h"
#include "server/cuda/vendor/solver.h"

namespace chx::server::cuda {

class EmulatedDnn : public Dnn {
 public:
  absl::StatusOr<bool> Convolve(const KernelArgs& args, const ConvCall& call) override;
  absl::StatusOr<bool> Recur(const KernelArgs& args, const RnnCall& call) override;
};

class EmulatedSolver : public Solver {
 public:
  int64_t smallest() const override { return 0; }
  absl::Status Lu(const KernelArgs& args, int n, const Matrices& a, int* pivots,
                  int* info) override;
  absl::Status SolveTransposed(const KernelArgs& args, int n, int k, const Matrices& lu,
                               const int* pivots, const Matrices& b, int* info) override;
  absl::Status Cholesky(const KernelArgs& args, int n, const Matrices& a, int* info) override;
  absl::Status Qr(const KernelArgs& args, int m, int n, const Matrices& a, void* tau,
                  int* info) override;
  absl::Status FormQ(const KernelArgs& args, int m, int columns, int reflectors, const Matrices& a,
                     const void* tau, int* info) override;
  absl::Status Eigh(const KernelArgs& args, bool vectors, bool upper, int n, const Matrices& a,
                    void* w, int* info) override;
  absl::Status Svd(const KernelArgs& args, char job, int m, int n, const Matrices& a, void* s,
                   const Matrices& u, const Matrices& vt, int* info) override;
  absl::Status SmallSvd(const KernelArgs& args, bool vectors, int m, int n, const Matrices& a,
                        void* s, const Matrices& u, const Matrices& v, int* info) override;
};

// How many calls all of these have answered, and of how many stacks at once.
int64_t EmulatedLibraryCalls();
int64_t EmulatedStackCalls();
void CountEmulatedCall();

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_TESTING_EMULATED_LIBRARIES_H_
