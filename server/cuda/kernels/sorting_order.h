// Elements as unsigned integers that sort as kernels::Precedes says.
#ifndef CHX_SERVER_CUDA_KERNELS_SORTING_ORDER_H_
#define CHX_SERVER_CUDA_KERNELS_SORTING_ORDER_H_

#include <cmath>
#include <cstdint>

#include "ops/dtype.h"
#include "server/cuda/loops/device_nest.h"
#include "server/kernels/axis.h"
#include "server/kernels/host_device.h"

namespace chx::server::cuda {

// The bits of an element have a key, and a key has a rank. Keys are as distinct as elements, so
// that an array of keys alone can be sorted. Ranks are as equal as elements: those of 0.0 and -0.0
// are, and those of all NaNs, which are the greatest. A stable sort by ranks gives NumPy's order.
// Plain data, for host and device.
template <typename Key>
class KeyOrder {
 public:
  KeyOrder() = default;
  // Elements have at most a Key's bits.
  explicit KeyOrder(Dtype dtype) {
    item_size_ = static_cast<int>(ItemSize(dtype));
    bits_ = 8 * item_size_;
    mask_ = static_cast<Key>(~uint64_t{0} >> (64 - bits_));
    top_ = static_cast<Key>(Key{1} << (bits_ - 1));
    last_ = mask_;
    if (dtype == Dtype::kBool) {
      last_ = 1;  // as any other byte but 0
      bits_ = 1;
    } else if (IsFloat(dtype)) {
      const int mantissa = -std::ilogb(EpsilonOf(dtype));
      // Negative NaNs would be the least keys; subtracting their number makes them the greatest.
      shift_ = static_cast<Key>((Key{1} << mantissa) - 1);
      positive_ = top_;
      negative_ = mask_;
      const Key infinity = static_cast<Key>(top_ - 1 - shift_);
      last_ = static_cast<Key>(KeyOf(infinity) + 1);
      zero_ = KeyOf(0);
      minus_zero_ = KeyOf(top_);
    } else if (dtype != Dtype::kUint8) {
      positive_ = top_;
      negative_ = top_;
    }
  }

  // Ranks are below 2^bits.
  CHX_HD int bits() const { return bits_; }
  CHX_HD Key KeyOf(Key element) const {
    const Key ordered = element ^ ((element & top_) != 0 ? negative_ : positive_);
    return static_cast<Key>(ordered - shift_) & mask_;
  }
  CHX_HD Key ElementOf(Key key) const {
    const Key ordered = static_cast<Key>(key + shift_) & mask_;
    return ordered ^ (((ordered ^ positive_) & top_) != 0 ? negative_ : positive_);
  }
  CHX_HD Key RankOf(Key key) const {
    const Key limited = key < last_ ? key : last_;
    return limited == minus_zero_ ? zero_ : limited;
  }
  // No key has a greater rank.
  static constexpr Key kGreatest = static_cast<Key>(~Key{0});

  CHX_HD Key Load(const char* data, int64_t i) const {
    if constexpr (sizeof(Key) == 8) {
      if (item_size_ == 8) return reinterpret_cast<const uint64_t*>(data)[i];
    }
    if (item_size_ == 4) return reinterpret_cast<const uint32_t*>(data)[i];
    if (item_size_ == 2) return reinterpret_cast<const uint16_t*>(data)[i];
    return reinterpret_cast<const uint8_t*>(data)[i];
  }
  CHX_HD void Store(char* data, int64_t i, Key element) const {
    if (item_size_ == 8) {
      reinterpret_cast<uint64_t*>(data)[i] = element;
    } else if (item_size_ == 4) {
      reinterpret_cast<uint32_t*>(data)[i] = static_cast<uint32_t>(element);
    } else if (item_size_ == 2) {
      reinterpret_cast<uint16_t*>(data)[i] = static_cast<uint16_t>(element);
    } else {
      reinterpret_cast<uint8_t*>(data)[i] = static_cast<uint8_t>(element);
    }
  }

 private:
  int item_size_ = 1;
  int bits_ = 8;
  Key mask_ = 0;
  Key top_ = 0;
  // What is flipped in elements whose top bit is clear, or set.
  Key positive_ = 0;
  Key negative_ = 0;
  Key shift_ = 0;
  Key last_ = 0;
  Key zero_ = 0;
  Key minus_zero_ = 0;
};

// The slices of an array along an axis, as rows. Plain data, for host and device.
class SliceRows {
 public:
  SliceRows() = default;
  explicit SliceRows(const kernels::AxisSlices& slices)
      : size_(slices.size), count_(slices.count()), after_(slices.after, slices.count()) {}

  CHX_HD int64_t size() const { return size_; }
  CHX_HD int64_t count() const { return count_; }
  // The position of a row's element in the array.
  CHX_HD int64_t Position(int64_t row, int64_t at) const {
    const int64_t before = after_.Quotient(row);
    const int64_t column = row - before * after_.divisor();
    return (before * size_ + at) * after_.divisor() + column;
  }

 private:
  int64_t size_ = 1;
  int64_t count_ = 1;
  Divider after_;
};

// What sort and argsort do: all dense, with the elements in `in`.
struct SortCall {
  Dtype dtype = Dtype::kFloat32;
  SliceRows rows;
  const char* in = nullptr;
  char* out = nullptr;  // the elements in order, or their positions in their rows (int64)
  bool positions = false;
};

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_KERNELS_SORTING_ORDER_H_
