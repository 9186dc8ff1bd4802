// Intrusive reference counting: one allocation per object, one word per pointer.
#ifndef CHX_BASE_REF_H_
#define CHX_BASE_REF_H_

#include <atomic>
#include <cstddef>
#include <utility>

namespace chx {

// Base of objects held by Ref<T>. Counting is thread-safe; T itself says what else is.
template <typename T>
class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  void AddRef() const { count_.fetch_add(1, std::memory_order_relaxed); }
  void Unref() const {
    if (count_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      T::Destroy(static_cast<const T*>(this));
  }
  // True if the caller holds the only reference.
  bool unique() const { return count_.load(std::memory_order_acquire) == 1; }

  // T may hide this to pool or to defer.
  static void Destroy(const T* object) { delete object; }

 protected:
  ~RefCounted() = default;

 private:
  mutable std::atomic<size_t> count_{0};
};

// A pointer that counts.
template <typename T>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}  // NOLINT(google-explicit-constructor)
  explicit Ref(T* object) : object_(object) {
    if (object_ != nullptr) object_->AddRef();
  }
  Ref(const Ref& other) : Ref(other.object_) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  ~Ref() {
    if (object_ != nullptr) object_->Unref();
  }
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  friend bool operator==(const Ref& a, const Ref& b) { return a.object_ == b.object_; }
  friend bool operator!=(const Ref& a, const Ref& b) { return a.object_ != b.object_; }

 private:
  T* object_ = nullptr;
};

// A new object.
template <typename T, typename... Args>
Ref<T> MakeRef(Args&&... args) {
  return Ref<T>(new T(std::forward<Args>(args)...));
}

}  // namespace chx

#endif  // CHX_BASE_REF_H_
