// Operators that make arrays, and those that copy, cast, fill and move them.
#include "ops/arange.h"
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"
#include "ops/op_context.h"

namespace chx {
namespace {

absl::StatusOr<Shape> ShapeAttr(const InferContext& c, int i, Dtype dtype) {
  const Ints& dims = c.attr(i).ints();
  CHX_RETURN_IF_ERROR(CheckShape(c.name(), dims, dtype));
  return Shape(dims);
}

absl::Status ShapeAndDtype(InferContext& c) {
  const Dtype dtype = c.attr(1).AsDtype();
  CHX_ASSIGN_OR_RETURN(const Shape shape, ShapeAttr(c, 0, dtype));
  return c.AddOutput(dtype, shape);
}

absl::Status FullRule(InferContext& c) {
  const Dtype dtype =
      c.attr(2).has_value() ? c.attr(2).AsDtype() : DefaultDtype(c.attr(1).AsScalar().kind());
  CHX_ASSIGN_OR_RETURN(const Shape shape, ShapeAttr(c, 0, dtype));
  return c.AddOutput(dtype, shape);
}

absl::Status ArangeRule(InferContext& c) {
  CHX_ASSIGN_OR_RETURN(const Arange arange, ParseArange(absl::MakeConstSpan(&c.attr(0), 4)));
  return c.AddOutput(arange.dtype, {arange.size});
}

absl::Status EyeRule(InferContext& c) {
  const int64_t n = c.attr(0).AsInt();
  const int64_t m = c.attr(1).has_value() ? c.attr(1).AsInt() : n;
  return c.AddOutput(c.attr(3).AsDtype(), {n, m});
}

absl::Status IdentityRule(InferContext& c) {
  const int64_t n = c.attr(0).AsInt();
  return c.AddOutput(c.attr(1).AsDtype(), {n, n});
}

absl::Status OneHotRule(InferContext& c) {
  const ArraySpec& x = c.input(0);
  if (!IsInt(x.dtype)) {
    return DtypeError("[one_hot] expects integers, got ", DtypeName(x.dtype));
  }
  if (x.ndim() == kMaxNdim) {
    return DimensionError("[one_hot] expects fewer than ", kMaxNdim, " dimensions");
  }
  CHX_ASSIGN_OR_RETURN(const int axis,
                       rules::NormalizeAxis(c.name(), c.attr(2).AsInt(), x.ndim() + 1));
  Ints shape(x.shape.begin(), x.shape.end());
  shape.insert(shape.begin() + axis, c.attr(0).AsInt());
  CHX_RETURN_IF_ERROR(CheckShape(c.name(), shape, c.attr(1).AsDtype()));
  c.CastInput(0, Dtype::kInt64);
  return c.AddOutput(c.attr(1).AsDtype(), Shape(shape));
}

// A constant in the shape and dtype of input 0.
Value FullLike(ComposeContext& c, Scalar value) {
  const ArraySpec& a = c.input(0).spec();
  return c.Apply(
      "full", {},
      {{"shape", AttrValue::FromInts(a.shape.span())}, {"fill_value", value}, {"dtype", a.dtype}});
}

// attrs: shape, dtype.
template <int kValue>
void Constant(ComposeContext& c) {
  c.SetOutput(
      0, c.Apply("full", {},
                 {{"shape", c.attr(0)}, {"fill_value", Scalar(kValue)}, {"dtype", c.attr(1)}}));
}

void RegisterFilled(OpRegistry& r) {
  r.Add("empty")
      .Doc("A new array whose values are unspecified (never another session's).")
      .Outputs({"y"})
      .Attr("shape", AttrType::kInts)
      .Attr("dtype", AttrType::kDtype, Dtype::kFloat32)
      .Infer(ShapeAndDtype);
  r.Add("full")
      .Doc(
          "A new array filled with a value. The dtype defaults to the scalar's: bool, int32 or "
          "float32.")
      .Outputs({"y"})
      .Attr("shape", AttrType::kInts)
      .Attr("fill_value", AttrType::kScalar)
      .Attr("dtype", AttrType::kDtype, AttrValue())
      .Infer(FullRule);
  const auto constant = [&r](const char* name, const char* doc, ComposeFn compose) {
    r.Add(name)
        .Doc(doc)
        .Outputs({"y"})
        .Attr("shape", AttrType::kInts)
        .Attr("dtype", AttrType::kDtype, Dtype::kFloat32)
        .NoGradient()
        .Compose(ShapeAndDtype, compose);
  };
  constant("zeros", "A new array of zeros.", Constant<0>);
  constant("ones", "A new array of ones.", Constant<1>);
  r.Add("arange")
      .Doc(
          "Evenly spaced values in [start, stop). arange(n) counts from 0. Integers give int32, "
          "floats float32, unless a dtype is given.")
      .Outputs({"y"})
      .Attr("start", AttrType::kScalar)
      .Attr("stop", AttrType::kScalar, AttrValue())
      .Attr("step", AttrType::kScalar, AttrValue())
      .Attr("dtype", AttrType::kDtype, AttrValue())
      .Infer(ArangeRule);
  r.Add("eye")
      .Doc("An (N, M) array with ones on diagonal k and zeros elsewhere.")
      .Outputs({"y"})
      .Attr("N", AttrType::kInt)
      .Attr("M", AttrType::kInt, AttrValue())
      .Attr("k", AttrType::kInt, 0)
      .Attr("dtype", AttrType::kDtype, Dtype::kFloat64)
      .Infer(EyeRule);
  r.Add("identity")
      .Doc("The (n, n) identity matrix.")
      .Outputs({"y"})
      .Attr("n", AttrType::kInt)
      .Attr("dtype", AttrType::kDtype, Dtype::kFloat32)
      .NoGradient()
      .Compose(IdentityRule, [](ComposeContext& c) {
        c.SetOutput(0, c.Apply("eye", {}, {{"N", c.attr(0)}, {"dtype", c.attr(1)}}));
      });
}

void RegisterOneHot(OpRegistry& r) {
  r.Add("one_hot")
      .Doc(
          "Ones where the index along a new axis is the integer x, else zeros: labels as vectors. "
          "Integers out of range give zeros only.")
      .Inputs({"x"})
      .Outputs({"y"})
      .Attr("num_classes", AttrType::kInt)
      .Attr("dtype", AttrType::kDtype, Dtype::kFloat32)
      .Attr("axis", AttrType::kInt, -1)
      .Infer(OneHotRule);
}

void RegisterLike(OpRegistry& r) {
  const auto like = [&r](const char* name, const char* doc) -> OpDef& {
    return r.Add(name).Doc(doc).Inputs({"a"}).Outputs({"y"}).NoGradient();
  };
  like("empty_like", "A new array of a's shape and dtype; values are unspecified.")
      .Compose(rules::Same, [](ComposeContext& c) {
        const ArraySpec& a = c.input(0).spec();
        c.SetOutput(0,
                    c.Apply("empty", {},
                            {{"shape", AttrValue::FromInts(a.shape.span())}, {"dtype", a.dtype}}));
      });
  like("zeros_like", "Zeros of a's shape and dtype.").Compose(rules::Same, [](ComposeContext& c) {
    c.SetOutput(0, FullLike(c, 0));
  });
  like("ones_like", "Ones of a's shape and dtype.").Compose(rules::Same, [](ComposeContext& c) {
    c.SetOutput(0, FullLike(c, 1));
  });
  like("full_like", "An array of a's shape and dtype, filled with a value.")
      .Attr("fill_value", AttrType::kScalar)
      .Compose(rules::Same,
               [](ComposeContext& c) { c.SetOutput(0, FullLike(c, c.attr(0).AsScalar())); });
}

void RegisterCopies(OpRegistry& r) {
  r.Add("copy")
      .Doc("A C-contiguous copy.")
      .Inputs({"a"})
      .Outputs({"y"})
      .Infer(rules::Same)
      .Method()
      .Gradient([](GradContext& g) { g.SetInputGrad(0, g.output_grad(0)); });
  r.Add("astype")
      .Doc("A copy cast to another dtype. Floats are truncated to integers; non-zero is True.")
      .Inputs({"a"})
      .Outputs({"y"})
      .Attr("dtype", AttrType::kDtype)
      .Infer([](InferContext& c) { return c.AddOutput(c.attr(0).AsDtype(), c.input(0).shape); })
      // The caller casts the gradient back to a's dtype.
      .Gradient([](GradContext& g) { g.SetInputGrad(0, g.output_grad(0)); });
  r.Add("view")
      .Doc("Another array over the same memory.")
      .Inputs({"a"})
      .Outputs({"y"})
      .View([](InferContext& c) {
        c.AddView(c.input(0));
        return absl::OkStatus();
      })
      .Method()
      .Gradient([](GradContext& g) { g.SetInputGrad(0, g.output_grad(0)); });
  r.Add("fill")
      .Doc("Sets every element of a, in place. Refused on arrays in a graph.")
      .Inputs({"a"})
      .Attr("value", AttrType::kScalar)
      .Infer([](InferContext& c) {
        static_cast<void>(c);
        return absl::OkStatus();
      })
      .InPlace()
      .Internal()
      .Method();
  r.Add("copyto")
      .Doc("Writes src, broadcast and cast to dst's dtype, into dst. Refused on arrays in a graph.")
      .Inputs({"dst", "src|scalar"})
      .Infer([](InferContext& c) -> absl::Status {
        if (!c.has_array(1)) return absl::OkStatus();
        Shape shape = c.input(0).shape;
        if (!BroadcastInto(&shape, c.input(1).shape) || shape != c.input(0).shape) {
          return DimensionError("[copyto] expects a source that broadcasts to ",
                                c.input(0).shape.ToString(), ", got ", c.input(1).shape.ToString());
        }
        return absl::OkStatus();
      })
      .InPlace();
  r.Add("to_device")
      .Doc("The array on another device; a view of it if that is where it is.")
      .Inputs({"a"})
      .Outputs({"y"})
      .Attr("device", AttrType::kInt)
      .Transfer([](InferContext& c) -> absl::Status {
        const int64_t device = c.attr(0).AsInt();
        if (device < 0 || device > 65535) {
          return DeviceError("[to_device] expects a device number, got ", device);
        }
        ArraySpec spec = c.input(0);
        if (static_cast<DeviceId>(device) != spec.device) {
          spec = ArraySpec(spec.dtype, spec.shape, static_cast<DeviceId>(device));
        }
        c.AddView(spec);
        return absl::OkStatus();
      })
      .Internal()
      .Gradient([](GradContext& g) {
        g.SetInputGrad(0, g.Apply("to_device", {g.output_grad(0)},
                                  {{"device", int64_t{g.input_spec(0).device}}}));
      });
}

}  // namespace

void RegisterCreation(OpRegistry& r) {
  RegisterFilled(r);
  RegisterOneHot(r);
  RegisterLike(r);
  RegisterCopies(r);
}

}  // namespace chx
