#include "client/files/host_array.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace chx {
namespace {

void SwapBytes(size_t item_size, std::string* data) {
  for (size_t i = 0; i + item_size <= data->size(); i += item_size) {
    std::reverse(data->begin() + static_cast<std::ptrdiff_t>(i),
                 data->begin() + static_cast<std::ptrdiff_t>(i + item_size));
  }
}

// From the order in which the first index moves fastest.
std::string ToCOrder(const std::string& data, const Shape& shape, size_t item_size) {
  std::vector<size_t> strides;  // in the data, in bytes
  size_t stride = item_size;
  for (int64_t dim : shape) {
    strides.push_back(stride);
    stride *= static_cast<size_t>(dim);
  }
  std::string result(data.size(), '\0');
  std::vector<int64_t> index(shape.size(), 0);
  size_t from = 0;
  for (size_t to = 0; to + item_size <= data.size(); to += item_size) {
    std::memcpy(&result[to], &data[from], item_size);
    for (size_t k = shape.size(); k-- > 0;) {
      from += strides[k];
      if (++index[k] < shape[k]) break;
      from -= strides[k] * static_cast<size_t>(index[k]);
      index[k] = 0;
    }
  }
  return result;
}

}  // namespace

void NormalizeElements(const ElementOrder& order, HostArray* array) {
  const size_t item_size = static_cast<size_t>(ItemSize(array->dtype));
  if (order.swapped) SwapBytes(item_size, &array->data);
  if (order.fortran && array->shape.size() > 1) {
    array->data = ToCOrder(array->data, array->shape, item_size);
  }
  if (array->dtype == Dtype::kBool) {
    for (char& value : array->data) value = value != 0 ? 1 : 0;
  }
}

Array UploadHostArray(Session& session, const HostArray& array, DeviceId device) {
  return Array::FromHost(session, array.data.data(), array.shape, array.dtype, device);
}

absl::StatusOr<HostArray> FetchHostArray(const Array& array) {
  CHX_RETURN_IF_ERROR(array.status());
  HostArray host;
  host.dtype = array.dtype();
  host.shape = array.shape();
  host.data.resize(static_cast<size_t>(array.spec().nbytes()));
  CHX_RETURN_IF_ERROR(array.CopyTo(host.data.empty() ? nullptr : &host.data[0], host.data.size()));
  return host;
}

}  // namespace chx
