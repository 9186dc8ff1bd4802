// Trains a multi-layer perceptron on MNIST through ChainerX's C++ API.
//
//   mnist --connect unix:/run/chxd/chxd.sock --data DIRECTORY [--epoch 20] [--batchsize 100]
//         [--unit 1000] [--layer 3] [--lr 0.01] [--device native:0] [--seed 1]
//
// The directory has MNIST's four files, unpacked: train-images-idx3-ubyte, ... A program for
// ChainerX differs from this one in two lines: the include below, and the Context in main().
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "chx/chainerx.h"

namespace chx = chainerx;

namespace {

struct Flags {
  std::string connect;
  std::string data = ".";
  std::string device = "native:0";
  int64_t epochs = 20;
  int64_t batch_size = 100;
  int64_t hidden = 1000;
  int64_t layers = 3;
  uint32_t seed = 1;
  float lr = 0.01F;
};

Flags ParseFlags(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 == argc) throw std::runtime_error(name + " expects a value, got none");
    const std::string value = argv[i + 1];
    if (name == "--connect") {
      flags.connect = value;
    } else if (name == "--data") {
      flags.data = value;
    } else if (name == "--device") {
      flags.device = value;
    } else if (name == "--epoch") {
      flags.epochs = std::stol(value);
    } else if (name == "--batchsize") {
      flags.batch_size = std::stol(value);
    } else if (name == "--unit") {
      flags.hidden = std::stol(value);
    } else if (name == "--layer") {
      flags.layers = std::stol(value);
    } else if (name == "--seed") {
      flags.seed = static_cast<uint32_t>(std::stoul(value));
    } else if (name == "--lr") {
      flags.lr = std::stof(value);
    } else {
      throw std::runtime_error("expects known flags, got " + name);
    }
  }
  return flags;
}

template <typename T>
chx::Array FromVector(const std::vector<T>& values, const chx::Shape& shape) {
  const std::shared_ptr<T> data(new T[values.size()], std::default_delete<T[]>());
  std::copy(values.begin(), values.end(), data.get());
  return chx::FromData(shape, chx::TypeToDtype<T>, data);
}

// A file of MNIST: big-endian, 2048 + its number of dimensions, these, and the bytes.
class IdxFile {
 public:
  IdxFile(const std::string& path, int64_t ndim) : file_(path, std::ios::binary) {
    if (!file_.is_open() || ReadInt() != 2048 + ndim) {
      throw std::runtime_error("expects a file of MNIST of " + std::to_string(ndim) +
                               " dimensions, got " + path);
    }
    for (int64_t i = 0; i < ndim; ++i) shape_.push_back(ReadInt());
  }

  chx::Array Read() {
    std::vector<uint8_t> bytes(static_cast<size_t>(shape_.GetTotalSize()));
    file_.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (!file_) throw std::runtime_error("a file of MNIST is cut short");
    return FromVector(bytes, shape_);
  }

 private:
  int64_t ReadInt() {
    int64_t value = 0;
    for (int i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(file_.get());
    return value;
  }

  std::ifstream file_;
  chx::Shape shape_;
};

chx::Array ReadImages(const std::string& path) {
  const chx::Array images = IdxFile(path, 3).Read();
  const int64_t pixels = images.shape()[1] * images.shape()[2];
  return images.Reshape({images.shape()[0], pixels}).AsType(chx::Dtype::kFloat32) / 255.F;
}

chx::Array ReadLabels(const std::string& path) {
  return IdxFile(path, 1).Read().AsType(chx::Dtype::kInt64);
}

class Model {
 public:
  Model(int64_t inputs, const Flags& flags, std::mt19937* random) {
    for (int64_t i = 0; i < flags.layers; ++i) {
      const int64_t from = i == 0 ? inputs : flags.hidden;
      const int64_t to = i == flags.layers - 1 ? 10 : flags.hidden;
      std::normal_distribution<float> normal(0.F, 1.F / std::sqrt(static_cast<float>(from)));
      std::vector<float> weights(static_cast<size_t>(from * to));
      for (float& weight : weights) weight = normal(*random);
      weights_.push_back(FromVector(weights, {to, from}).RequireGrad());
      biases_.push_back(chx::Zeros({to}, chx::Dtype::kFloat32).RequireGrad());
    }
  }

  chx::Array operator()(const chx::Array& x) const {
    chx::Array h = x;
    for (size_t i = 0; i < weights_.size(); ++i) {
      if (i != 0) h = chx::Relu(h);
      h = chx::Linear(h, weights_[i], biases_[i]);
    }
    return h;
  }

  // A step of stochastic gradient descent, in place.
  void Update(float lr) const {
    for (const std::vector<chx::Array>* params : {&weights_, &biases_}) {
      for (const chx::Array& param : *params) {
        chx::Array values = param.AsGradStopped();
        values -= param.GetGrad()->AsGradStopped() * lr;
        param.ClearGrad();
      }
    }
  }

 private:
  std::vector<chx::Array> weights_;
  std::vector<chx::Array> biases_;
};

// The sum over the batch.
chx::Array Loss(const chx::Array& y, const chx::Array& t) {
  const chx::Array log_probability = chx::LogSoftmax(y, 1);
  const chx::Array classes = chx::Arange(y.shape()[1], t.dtype(), y.device());
  const chx::Array chosen = t.At({chx::Slice{}, chx::NewAxis{}}) == classes;
  return -(log_probability * chosen.AsType(y.dtype())).Sum();
}

void Evaluate(const Model& model, const chx::Array& x, const chx::Array& t, int64_t batch_size) {
  const chx::NoBackpropModeScope scope{};
  chx::Array loss = chx::Zeros({}, chx::Dtype::kFloat32);
  chx::Array hits = chx::Zeros({}, chx::Dtype::kFloat32);
  const int64_t count = x.shape().front();
  for (int64_t i = 0; i < count; i += batch_size) {
    const std::vector<chx::ArrayIndex> batch{chx::Slice{i, i + batch_size}};
    const chx::Array y = model(x.At(batch));
    loss += Loss(y, t.At(batch));
    hits += (y.ArgMax(1).AsType(t.dtype()) == t.At(batch)).Sum().AsType(hits.dtype());
  }
  std::cout << "loss=" << chx::AsScalar(loss / count) << " accuracy=" << chx::AsScalar(hits / count)
            << std::endl;
}

void Run(const Flags& flags) {
  const chx::Array train_x = ReadImages(flags.data + "/train-images-idx3-ubyte");
  const chx::Array train_t = ReadLabels(flags.data + "/train-labels-idx1-ubyte");
  const chx::Array test_x = ReadImages(flags.data + "/t10k-images-idx3-ubyte");
  const chx::Array test_t = ReadLabels(flags.data + "/t10k-labels-idx1-ubyte");
  const int64_t count = train_x.shape().front();

  std::mt19937 random(flags.seed);
  const Model model(train_x.shape()[1], flags, &random);
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  for (int64_t epoch = 0; epoch < flags.epochs; ++epoch) {
    std::shuffle(order.begin(), order.end(), random);
    const chx::Array indices = FromVector(order, {count});
    for (int64_t i = 0; i < count; i += flags.batch_size) {
      const chx::Array batch = indices.At({chx::Slice{i, i + flags.batch_size}});
      const chx::Array loss = Loss(model(train_x.Take(batch, 0)), train_t.Take(batch, 0));
      chx::Backward(loss / batch.shape()[0]);
      model.Update(flags.lr);
    }
    std::cout << "epoch: " << epoch << " ";
    Evaluate(model, test_x, test_t, flags.batch_size);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Flags flags = ParseFlags(argc, argv);
    chx::Context context{flags.connect};  // with ChainerX: chx::Context context{};
    chx::SetDefaultContext(&context);
    chx::SetDefaultDevice(&context.GetDevice(flags.device));
    Run(flags);
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
  return 0;
}
