// `chxd --help`: every flag with its default, by topic.
#ifndef CHX_SERVER_USAGE_H_
#define CHX_SERVER_USAGE_H_

#include <string>

namespace chx {

std::string Usage();

}  // namespace chx

#endif  // CHX_SERVER_USAGE_H_
