// Arrays by name: a model's parameters, an optimizer's state, what is in a file.
#ifndef CHX_CLIENT_ARRAY_MAP_H_
#define CHX_CLIENT_ARRAY_MAP_H_

#include <map>
#include <string>

#include "client/array.h"

namespace chx {

// Arrays by name.
using ArrayMap = std::map<std::string, Array>;

}  // namespace chx

#endif  // CHX_CLIENT_ARRAY_MAP_H_
