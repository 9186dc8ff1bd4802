// A short vector without a heap allocation.
#ifndef CHX_CHAINERX_STACK_VECTOR_H_
#define CHX_CHAINERX_STACK_VECTOR_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <ostream>

#include "chx/chainerx/error.h"

namespace chainerx {

// At most N elements; one more is a DimensionError.
template <typename T, size_t N>
class StackVector {
 public:
  using value_type = T;
  using size_type = size_t;
  using reference = T&;
  using const_reference = const T&;
  using iterator = T*;
  using const_iterator = const T*;
  using reverse_iterator = std::reverse_iterator<iterator>;
  using const_reverse_iterator = std::reverse_iterator<const_iterator>;

  StackVector() = default;
  StackVector(std::initializer_list<T> values) { Append(values.begin(), values.end()); }
  template <typename It>
  StackVector(It first, It last) {
    Append(first, last);
  }

  size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  T* data() noexcept { return values_.data(); }
  const T* data() const noexcept { return values_.data(); }
  iterator begin() noexcept { return data(); }
  iterator end() noexcept { return data() + size_; }
  const_iterator begin() const noexcept { return data(); }
  const_iterator end() const noexcept { return data() + size_; }
  const_iterator cbegin() const noexcept { return begin(); }
  const_iterator cend() const noexcept { return end(); }
  reverse_iterator rbegin() noexcept { return reverse_iterator(end()); }
  reverse_iterator rend() noexcept { return reverse_iterator(begin()); }
  const_reverse_iterator rbegin() const noexcept { return const_reverse_iterator(end()); }
  const_reverse_iterator rend() const noexcept { return const_reverse_iterator(begin()); }
  T& operator[](size_t i) { return values_[i]; }
  const T& operator[](size_t i) const { return values_[i]; }
  T& front() { return values_[0]; }
  const T& front() const { return values_[0]; }
  T& back() { return values_[size_ - 1]; }
  const T& back() const { return values_[size_ - 1]; }

  void clear() noexcept { size_ = 0; }
  void resize(size_t size) {
    while (size_ < size) push_back(T{});
    size_ = size;
  }
  void push_back(const T& value) {
    if (size_ == N) throw DimensionError("expects at most ", N, " dimensions, got one more");
    values_[size_++] = value;
  }
  T& emplace_back(const T& value) {
    push_back(value);
    return back();
  }
  iterator insert(const_iterator where, const T& value) {
    const auto position = where - begin();
    push_back(value);
    std::rotate(begin() + position, end() - 1, end());
    return begin() + position;
  }
  iterator erase(const_iterator where) {
    iterator position = begin() + (where - begin());
    std::copy(position + 1, end(), position);
    --size_;
    return position;
  }

 protected:
  template <typename It>
  void Append(It first, It last) {
    for (; first != last; ++first) push_back(static_cast<T>(*first));
  }

 private:
  std::array<T, N> values_{};
  size_t size_ = 0;
};

template <typename T, size_t N>
bool operator==(const StackVector<T, N>& a, const StackVector<T, N>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}
template <typename T, size_t N>
bool operator!=(const StackVector<T, N>& a, const StackVector<T, N>& b) {
  return !(a == b);
}

}  // namespace chainerx

#endif  // CHX_CHAINERX_STACK_VECTOR_H_
