// Attributes of operators as Python arguments.
#ifndef CHX_PYTHON_CLIENT_CORE_OP_ATTRIBUTES_H_
#define CHX_PYTHON_CLIENT_CORE_OP_ATTRIBUTES_H_

#include "python_client/core/common.h"

namespace chx::python {

// The attribute's value, or its default if `object` is null or None. False with an exception.
bool ToAttr(const OpDef& op, const AttrDef& attr, PyObject* object, AttrValue* value);

}  // namespace chx::python

#endif  // CHX_PYTHON_CLIENT_CORE_OP_ATTRIBUTES_H_
