// Trains a multi-layer perceptron, 784-1000-1000-10, on MNIST images through a daemon.
//
//   mnist --connect unix:/run/chxd.sock --images t10k-images-idx3-ubyte.gz
//         --labels t10k-labels-idx1-ubyte.gz [--epochs 5] [--seed 1] [--lr 0.1] [--device 0]
//
// The last 2,000 images are held out. python_client/examples/mnist.py is the same program: weights
// are normal with deviation 1/sqrt(inputs), biases are zero, and the order of the images comes from
// examples/shuffle.h. Both draw other weights from the same seed, so their losses differ a little.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "chx/chx.h"
#include "client/examples/idx_file.h"
#include "client/examples/shuffle.h"

namespace {

constexpr int64_t kPixels = 784;
constexpr int64_t kClasses = 10;
constexpr int64_t kHidden = 1000;
constexpr int64_t kHeldOut = 2000;
constexpr int64_t kBatch = 100;

struct Flags {
  std::string connect, images, labels;
  int epochs = 5;
  int device = 0;
  int seed = 1;
  double lr = 0.1;
};

bool ParseFlags(int argc, char** argv, Flags* flags) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const char* value = argv[i + 1];
    bool valid = true;
    if (name == "--connect") {
      flags->connect = value;
    } else if (name == "--images") {
      flags->images = value;
    } else if (name == "--labels") {
      flags->labels = value;
    } else if (name == "--epochs") {
      valid = absl::SimpleAtoi(value, &flags->epochs);
    } else if (name == "--seed") {
      valid = absl::SimpleAtoi(value, &flags->seed);
    } else if (name == "--lr") {
      valid = absl::SimpleAtod(value, &flags->lr);
    } else if (name == "--device") {
      valid = absl::SimpleAtoi(value, &flags->device);
    } else {
      return false;
    }
    if (!valid) return false;
  }
  return argc % 2 == 1 && !flags->connect.empty() && !flags->images.empty() &&
         !flags->labels.empty();
}

// An error anywhere above shows here: arrays hold it and hand it on.
void ExitOnError(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

template <typename T>
T ValueOrExit(absl::StatusOr<T> value) {
  ExitOnError(value.status());
  return *std::move(value);
}

class Mlp {
 public:
  Mlp(chx::Session& session, chx::DeviceId device) {
    const int64_t sizes[] = {kPixels, kHidden, kHidden, kClasses};
    for (int i = 0; i < 3; ++i) {
      const int64_t shape[] = {sizes[i + 1], sizes[i]};
      weights_.emplace_back(ValueOrExit(session.Random(
          "random_normal", shape, 0.0, 1.0 / std::sqrt(static_cast<double>(sizes[i])),
          chx::Dtype::kFloat32, device)));
      biases_.push_back(chx::zeros(session, {sizes[i + 1]}, chx::Dtype::kFloat32, device));
      weights_.back().RequireGrad();
      biases_.back().RequireGrad();
    }
  }

  chx::Array operator()(chx::Array x) const {
    for (size_t i = 0; i < weights_.size(); ++i) {
      if (i > 0) x = chx::relu(x);
      x = chx::linear(x, weights_[i], biases_[i]);
    }
    return x;
  }

  std::vector<chx::Array> parameters() const {
    std::vector<chx::Array> all = weights_;
    all.insert(all.end(), biases_.begin(), biases_.end());
    return all;
  }

 private:
  std::vector<chx::Array> weights_;
  std::vector<chx::Array> biases_;
};

void Train(const Flags& flags) {
  const chx::IdxFile images = ValueOrExit(chx::ReadIdxFile(flags.images));
  const chx::IdxFile labels = ValueOrExit(chx::ReadIdxFile(flags.labels));
  const int64_t count = images.dims[0];
  if (images.dims.size() != 3 || images.data.size() != static_cast<size_t>(count * kPixels) ||
      labels.data.size() != static_cast<size_t>(count) || count <= kHeldOut) {
    ExitOnError(absl::InvalidArgumentError("expected images of 28 x 28 and as many labels"));
  }
  const int64_t num_train = count - kHeldOut;

  const chx::Ref<chx::Session> session = ValueOrExit(chx::Session::Connect(flags.connect));
  const auto device = static_cast<chx::DeviceId>(flags.device);
  session->Seed(static_cast<uint64_t>(flags.seed));
  const auto upload = [&](const std::vector<uint8_t>& bytes, const chx::Shape& shape) {
    return chx::Array::FromHost(*session, bytes.data(), shape, chx::Dtype::kUint8, device);
  };
  // All of the data stays on the device; a batch is taken from it by index.
  const chx::Array x =
      chx::astype(upload(images.data, {count, kPixels}), chx::Dtype::kFloat32) / 255.0;
  const chx::Array t = chx::astype(upload(labels.data, {count}), chx::Dtype::kInt64);
  const chx::Array x_test = x[chx::IndexBuilder().Slice(num_train, {}, {})];
  const chx::Array t_test = t[chx::IndexBuilder().Slice(num_train, {}, {})];

  Mlp model(*session, device);
  chx::optimizers::SGD optimizer;
  optimizer.lr = flags.lr;
  ExitOnError(optimizer.Setup(model.parameters()));
  chx::Shuffler shuffler(static_cast<uint64_t>(flags.seed));
  std::vector<int64_t> order(static_cast<size_t>(num_train));
  std::iota(order.begin(), order.end(), 0);
  std::printf("epoch  train loss  test loss  test accuracy\n");
  for (int epoch = 1; epoch <= flags.epochs; ++epoch) {
    shuffler.Shuffle(&order);
    const chx::Array indices =
        chx::Array::FromHost(*session, order.data(), {num_train}, chx::Dtype::kInt64, device);
    chx::Array total = chx::zeros(*session, {}, chx::Dtype::kFloat32, device);
    int64_t batches = 0;
    for (int64_t first = 0; first + kBatch <= num_train; first += kBatch, ++batches) {
      const chx::Array batch = indices[chx::IndexBuilder().Slice(first, first + kBatch, {})];
      const chx::Array loss = chx::mean(
          chx::softmax_cross_entropy(model(chx::take(x, batch, 0)), chx::take(t, batch, 0)));
      ExitOnError(chx::Backward(loss));
      ExitOnError(optimizer.Update());
      ExitOnError(optimizer.ClearGrads());
      ExitOnError(total += loss.AsGradStopped());
    }
    const chx::NoBackpropMode evaluate;
    const chx::Array y = model(x_test);
    const double test_loss = ValueOrExit(chx::mean(chx::softmax_cross_entropy(y, t_test)).Item());
    const double accuracy = ValueOrExit(chx::accuracy(y, t_test).Item());
    std::printf("%5d  %10.6f  %9.6f  %13.4f\n", epoch,
                ValueOrExit(total.Item()) / static_cast<double>(batches), test_loss, accuracy);
    std::fflush(stdout);
  }
  ExitOnError(session->Close());
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  if (!ParseFlags(argc, argv, &flags)) {
    std::fprintf(stderr,
                 "usage: mnist --connect ADDRESS --images FILE --labels FILE [--epochs N] "
                 "[--seed N] [--lr X] [--device N]\n");
    return 2;
  }
  Train(flags);
  return 0;
}
