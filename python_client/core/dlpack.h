// DLPack's structures, as its ABI of version 1 lays them out (dmlc.github.io/dlpack), for memory of
// the host.
#ifndef CHX_PYTHON_CLIENT_CORE_DLPACK_H_
#define CHX_PYTHON_CLIENT_CORE_DLPACK_H_

#include <cstdint>

namespace chx::python {

constexpr int32_t kDlCpu = 1;
enum DlCode : uint8_t { kDlInt = 0, kDlUint = 1, kDlFloat = 2, kDlBfloat = 4, kDlBool = 6 };
constexpr uint64_t kDlReadOnly = 1;  // flags
constexpr uint64_t kDlCopied = 2;

struct DlDevice {
  int32_t type;
  int32_t id;
};

struct DlDtype {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

struct DlTensor {
  void* data;
  DlDevice device;
  int32_t ndim;
  DlDtype dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null: C order
  uint64_t byte_offset;
};

// Of a capsule named "dltensor". Who takes it renames the capsule, and calls the deleter once.
struct DlManaged {
  static constexpr const char* kName = "dltensor";
  static constexpr const char* kUsedName = "used_dltensor";

  DlTensor tensor;
  void* context;
  void (*deleter)(DlManaged*);
};

// Of a capsule named "dltensor_versioned". Other major versions differ behind `flags`.
struct DlVersioned {
  static constexpr const char* kName = "dltensor_versioned";
  static constexpr const char* kUsedName = "used_dltensor_versioned";

  uint32_t major;
  uint32_t minor;
  void* context;
  void (*deleter)(DlVersioned*);
  uint64_t flags;
  DlTensor tensor;
};

}  // namespace chx::python

#endif  // CHX_PYTHON_CLIENT_CORE_DLPACK_H_
