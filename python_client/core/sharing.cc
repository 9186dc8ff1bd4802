// Arrays of other sessions, as chx/_runtime/sharing.py calls for them.
#include "client/sharing.h"

#include <utility>

#include "client/programs.h"
#include "client/published_programs.h"
#include "python_client/core/common.h"

namespace chx::python {
namespace {

PyObject* Text(const std::string& text) {
  return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
}

// False with an exception set.
bool ToText(PyObject* object, std::string* text) {
  Py_ssize_t size = 0;
  const char* const data = PyUnicode_AsUTF8AndSize(object, &size);
  if (data != nullptr) text->assign(data, static_cast<size_t>(size));
  return data != nullptr;
}

bool ToTexts(PyObject* object, std::vector<std::string>* texts) {
  const Owned sequence(PySequence_Fast(object, "expected a sequence of strings"));
  if (!sequence) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence.get()); ++i) {
    texts->emplace_back();
    if (!ToText(PySequence_Fast_GET_ITEM(sequence.get(), i), &texts->back())) return false;
  }
  return true;
}

OpenMode ModeOf(int copy) { return copy != 0 ? OpenMode::kCopy : OpenMode::kShared; }

// _share(array, write, keep, expires_ms, tenant) -> str
PyObject* ShareFunction(PyObject*, PyObject* args) {
  PyObject* object = nullptr;
  int write = 0;
  int keep = 0;
  long long expires = 0;  // NOLINT(runtime/int): the format's
  const char* tenant = nullptr;
  if (!PyArg_ParseTuple(args, "O!ppLs", &array_type, &object, &write, &keep, &expires, &tenant)) {
    return nullptr;
  }
  ShareOptions options;
  options.rights = write != 0 ? ShareRights::kWrite : ShareRights::kRead;
  options.keep = keep != 0;
  options.expires = std::chrono::milliseconds(expires);
  options.tenant = tenant;
  const Array array{ArrayPtr(BodyOf(object))};
  absl::StatusOr<std::string> capability = absl::UnknownError("");
  {
    const WithoutGil nogil;
    capability = Share(array, options);
  }
  if (!capability.ok()) return Raise(capability.status(), array.body()->session.get());
  return Text(*capability);
}

// _open_shared(session, capability, copy) -> array
PyObject* Open(PyObject*, PyObject* args) {
  PyObject *session = nullptr, *text = nullptr;
  int copy = 0;
  std::string capability;
  if (!PyArg_ParseTuple(args, "O!Up", &session_type, &session, &text, &copy) ||
      !ToText(text, &capability)) {
    return nullptr;
  }
  Session* const opened = AsSession(session)->session;
  Array array;
  {
    const WithoutGil nogil;
    array = OpenShared(*opened, capability, ModeOf(copy));
  }
  if (!array.ok()) return Raise(array.status(), opened);
  return Wrap(array.body());
}

// _revoke(session, capability)
PyObject* RevokeFunction(PyObject*, PyObject* args) {
  PyObject *session = nullptr, *text = nullptr;
  std::string capability;
  if (!PyArg_ParseTuple(args, "O!U", &session_type, &session, &text) ||
      !ToText(text, &capability)) {
    return nullptr;
  }
  absl::Status status;
  {
    const WithoutGil nogil;
    status = Revoke(*AsSession(session)->session, capability);
  }
  if (!status.ok()) return Raise(status, AsSession(session)->session);
  Py_RETURN_NONE;
}

// _publish(session, name, paths, arrays, readers, keep, structure) -> version
PyObject* PublishFunction(PyObject*, PyObject* args) {
  PyObject *session = nullptr, *name_object = nullptr, *paths_object = nullptr;
  PyObject *arrays_object = nullptr, *readers = nullptr, *structure = nullptr;
  int keep = 0;
  std::string name;
  std::vector<std::string> paths;
  Arrays arrays;
  PublishOptions options;
  if (!PyArg_ParseTuple(args, "O!UOOOpU", &session_type, &session, &name_object, &paths_object,
                        &arrays_object, &readers, &keep, &structure) ||
      !ToText(name_object, &name) || !ToTexts(paths_object, &paths) ||
      !ToArrays(arrays_object, false, &arrays) || !ToTexts(readers, &options.readers) ||
      !ToText(structure, &options.structure)) {
    return nullptr;
  }
  options.keep = keep != 0;
  std::vector<ArrayPtr> bodies;
  for (ArrayBody* body : arrays.bodies) bodies.emplace_back(body);
  absl::StatusOr<uint64_t> version = absl::UnknownError("");
  {
    const WithoutGil nogil;
    version = Publish(*AsSession(session)->session, name, paths, bodies, options);
  }
  if (!version.ok()) return Raise(version.status(), AsSession(session)->session);
  return PyLong_FromUnsignedLongLong(*version);
}

// _publish_programs(session, name, programs, readers, keep, structure) -> version
PyObject* PublishProgramsFunction(PyObject*, PyObject* args) {
  PyObject *session = nullptr, *name_object = nullptr, *list = nullptr, *readers = nullptr;
  PyObject* structure = nullptr;
  int keep = 0;
  std::string name;
  PublishOptions options;
  if (!PyArg_ParseTuple(args, "O!UO!OpU", &session_type, &session, &name_object, &PyList_Type,
                        &list, &readers, &keep, &structure) ||
      !ToText(name_object, &name) || !ToTexts(readers, &options.readers) ||
      !ToText(structure, &options.structure)) {
    return nullptr;
  }
  options.keep = keep != 0;
  std::vector<RecordedProgram*> programs;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    programs.push_back(AsProgram(PyList_GET_ITEM(list, i)));
    if (programs.back() == nullptr) return nullptr;
  }
  absl::StatusOr<uint64_t> version = absl::UnknownError("");
  {
    const WithoutGil nogil;
    version = internal::PublishPrograms(*AsSession(session)->session, name, programs, options);
  }
  if (!version.ok()) return Raise(version.status(), AsSession(session)->session);
  return PyLong_FromUnsignedLongLong(*version);
}

// [(dtype, shape, device), ...]
PyObject* FromSpecs(const std::vector<ArraySpec>& specs, const Session& session) {
  Owned list(PyList_New(0));
  for (const ArraySpec& spec : specs) {
    const std::string dtype(DtypeName(spec.dtype));
    const bool known = spec.device < session.devices().size();
    Owned shape(PyTuple_New(spec.ndim()));
    if (!list || !shape) return nullptr;
    for (int i = 0; i < spec.ndim(); ++i) {
      PyTuple_SET_ITEM(shape.get(), i, PyLong_FromLongLong(spec.shape[i]));
    }
    const Owned each(Py_BuildValue("(sNs)", dtype.c_str(), shape.release(),
                                   known ? session.devices()[spec.device].c_str() : ""));
    if (!each || PyList_Append(list.get(), each.get()) < 0) return nullptr;
  }
  return list.release();
}

// _lookup(session, tenant, name, version, copy) -> (version, structure, [(path, array), ...],
// [(program, arguments, number of results), ...])
PyObject* LookupFunction(PyObject*, PyObject* args) {
  PyObject *session = nullptr, *tenant = nullptr, *name_object = nullptr;
  unsigned long long version = 0;  // NOLINT(runtime/int): the format's
  int copy = 0;
  std::string name;
  LookupOptions options;
  if (!PyArg_ParseTuple(args, "O!UUKp", &session_type, &session, &tenant, &name_object, &version,
                        &copy) ||
      !ToText(tenant, &options.tenant) || !ToText(name_object, &name)) {
    return nullptr;
  }
  options.version = version;
  options.mode = ModeOf(copy);
  Session* const opened = AsSession(session)->session;
  absl::StatusOr<internal::Found> found = absl::UnknownError("");
  {
    const WithoutGil nogil;
    found = internal::Find(*opened, name, options);
  }
  if (!found.ok()) return Raise(found.status(), opened);
  Published& tree = found->arrays;
  Owned list(PyList_New(0));
  for (size_t i = 0; list && i < tree.arrays.size(); ++i) {
    const Owned pair(Py_BuildValue("(NN)", Text(tree.paths[i]), Wrap(std::move(tree.arrays[i]))));
    if (!pair || PyList_Append(list.get(), pair.get()) < 0) return nullptr;
  }
  Owned programs(PyList_New(0));
  for (const Ref<RecordedProgram>& program : found->programs) {
    const Owned row(Py_BuildValue("(NNn)", FromProgram(program),
                                  FromSpecs(program->arguments(), *opened),
                                  static_cast<Py_ssize_t>(program->results().size())));
    if (!programs || !row || PyList_Append(programs.get(), row.get()) < 0) return nullptr;
  }
  return Py_BuildValue("(KNNN)", static_cast<unsigned long long>(tree.version),  // NOLINT
                       Text(tree.structure), list.release(), programs.release());
}

// _unpublish(session, name, version)
PyObject* UnpublishFunction(PyObject*, PyObject* args) {
  PyObject *session = nullptr, *name_object = nullptr;
  unsigned long long version = 0;  // NOLINT(runtime/int): the format's
  std::string name;
  if (!PyArg_ParseTuple(args, "O!UK", &session_type, &session, &name_object, &version) ||
      !ToText(name_object, &name)) {
    return nullptr;
  }
  absl::Status status;
  {
    const WithoutGil nogil;
    status = Unpublish(*AsSession(session)->session, name, version);
  }
  if (!status.ok()) return Raise(status, AsSession(session)->session);
  Py_RETURN_NONE;
}

// _names(session, prefix) -> [(tenant, name, version, arrays, bytes), ...]
PyObject* NamesFunction(PyObject*, PyObject* args) {
  PyObject *session = nullptr, *prefix_object = nullptr;
  std::string prefix;
  if (!PyArg_ParseTuple(args, "O!U", &session_type, &session, &prefix_object) ||
      !ToText(prefix_object, &prefix)) {
    return nullptr;
  }
  absl::StatusOr<std::vector<PublishedName>> names = absl::UnknownError("");
  {
    const WithoutGil nogil;
    names = Names(*AsSession(session)->session, prefix);
  }
  if (!names.ok()) return Raise(names.status(), AsSession(session)->session);
  Owned list(PyList_New(0));
  for (const PublishedName& name : *names) {
    using Number = unsigned long long;  // NOLINT(runtime/int): the format's
    const Owned row(Py_BuildValue(
        "(NNKKK)", Text(name.tenant), Text(name.name), static_cast<Number>(name.version),
        static_cast<Number>(name.arrays), static_cast<Number>(name.bytes)));
    if (!list || !row || PyList_Append(list.get(), row.get()) < 0) return nullptr;
  }
  return list.release();
}

}  // namespace

PyMethodDef sharing_functions[] = {
    {"_share", ShareFunction, METH_VARARGS, nullptr},
    {"_open_shared", Open, METH_VARARGS, nullptr},
    {"_revoke", RevokeFunction, METH_VARARGS, nullptr},
    {"_publish", PublishFunction, METH_VARARGS, nullptr},
    {"_publish_programs", PublishProgramsFunction, METH_VARARGS, nullptr},
    {"_lookup", LookupFunction, METH_VARARGS, nullptr},
    {"_unpublish", UnpublishFunction, METH_VARARGS, nullptr},
    {"_names", NamesFunction, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace chx::python
