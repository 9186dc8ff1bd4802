#include "chx/chainerx/backprop.h"

#include <algorithm>

#include "client/autograd.h"
#include "client/chainerx/internal.h"
#include "client/modes.h"

namespace chainerx {
namespace {

std::vector<chx::Array> ClientArrays(const std::vector<ConstArrayRef>& arrays) {
  std::vector<chx::Array> found;
  found.reserve(arrays.size());
  for (const Array& array : arrays) found.push_back(internal::ToChx(array));
  return found;
}

chx::BackwardArgs Args(const Optional<BackpropId>& id, Context& context,
                       DoubleBackpropOption double_backprop, Optional<float> loss_scale) {
  chx::BackwardArgs args;
  args.id = internal::ToChx(id, context);
  args.enable_double_backprop = double_backprop == DoubleBackpropOption::kEnable;
  args.loss_scale = loss_scale.value_or(1.0F);
  return args;
}

Context& ContextOf(const char* op, const std::vector<ConstArrayRef>& outputs) {
  if (outputs.empty()) throw ValueError("[", op, "] expects at least one output");
  return *internal::BodyOf(outputs[0].get())->context;
}

}  // namespace

void Backward(const Array& output, const Optional<BackpropId>& id,
              DoubleBackpropOption double_backprop, Optional<float> loss_scale) {
  Backward(std::vector<ConstArrayRef>{output}, id, double_backprop, loss_scale);
}

void Backward(const std::vector<ConstArrayRef>& outputs, const Optional<BackpropId>& id,
              DoubleBackpropOption double_backprop, Optional<float> loss_scale) {
  Context& context = ContextOf("backward", outputs);
  const chx::BackwardArgs args = Args(id, context, double_backprop, loss_scale);
  const std::vector<chx::Array> arrays = ClientArrays(outputs);
  chx::GraphMirror& graphs = internal::SessionIn(context).graphs();
  // The client passes over arrays outside of the graph; ChainerX refuses if there is nothing else.
  absl::Status first;
  const bool any = std::any_of(arrays.begin(), arrays.end(), [&](const chx::Array& array) {
    const auto membership = graphs.MembershipOf("backward", array.body().get(), args.id);
    if (first.ok()) first = membership.status();
    return membership.ok();
  });
  if (!any) internal::Throw(first);
  internal::ThrowIfError(chx::Backward(arrays, args));
}

std::vector<Optional<Array>> Grad(const std::vector<ConstArrayRef>& outputs,
                                  const std::vector<ConstArrayRef>& inputs,
                                  const Optional<BackpropId>& id,
                                  DoubleBackpropOption double_backprop, bool set_grad,
                                  bool retain_grad, const std::vector<ConstArrayRef>& grad_outputs,
                                  Optional<float> loss_scale) {
  Context& context = ContextOf("grad", outputs);
  chx::BackwardArgs args = Args(id, context, double_backprop, loss_scale);
  args.retain_grad = retain_grad;
  const std::vector<chx::Array> arrays = internal::ValueOrThrow(
      chx::Grad(ClientArrays(outputs), ClientArrays(inputs), ClientArrays(grad_outputs), args));
  std::vector<Optional<Array>> grads;
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (!arrays[i].ok()) {  // no output depends on it
      grads.emplace_back();
      continue;
    }
    grads.emplace_back(internal::FromChx(arrays[i], context));
    if (set_grad) inputs[i].get().SetGrad(*grads.back(), id);
  }
  return grads;
}

namespace internal {

void PushBackpropMode(bool record, Context& context) { chx::PushMode(record, SessionIn(context)); }

void PushBackpropMode(bool record, const std::vector<BackpropId>& ids) {
  std::vector<chx::BackpropId> numbers;
  numbers.reserve(ids.size());
  for (const BackpropId& id : ids) {
    id.CheckValid();
    numbers.push_back(ToChx(id, ids[0].context()));
  }
  chx::PushMode(record, numbers);
}

void PopBackpropMode() { chx::PopMode(); }

}  // namespace internal

bool IsBackpropRequired(Context& context) {
  return IsBackpropRequired(context.default_backprop_id());
}

bool IsBackpropRequired(const BackpropId& id) {
  id.CheckValid();
  return internal::SessionIn(id.context())
      .graphs()
      .Records(static_cast<chx::BackpropId>(id.ordinal()));
}

}  // namespace chainerx
