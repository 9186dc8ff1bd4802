// `chxd --help`: every flag with its default, by topic.
#ifndef CHX_SERVER_USAGE_H_
#define CHX_SERVER_USAGE_H_

#include <string>

namespace chx::server {

std::string Usage();

}  // namespace chx::server

#endif  // CHX_SERVER_USAGE_H_
