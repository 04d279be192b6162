// The heads of the in-context machine, vectorised: the same functions as machine_heads/torch_forms.py.
//
//   head(s) = (E(w) c + sinh(y) O(w)) / (B(w) c),   y = base s,  w = sinh(y)^2,  c = sqrt(1 + w)
//
// Numbers are taken in blocks. All polynomials of a block advance together, in registers. No answer outside of a
// domain: such numbers become NaN. `read` returns the largest |q| too, as bits, where NaN is largest.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <tuple>
#include <type_traits>

namespace {

constexpr int MOST = 64;  // coefficients of a polynomial

template <class T>
struct Float;
template <>
struct Float<double> {
  using Int = int64_t;
  static constexpr int bits = 52, bias = 1023;
};
template <>
struct Float<float> {
  using Int = int32_t;
  static constexpr int bits = 23, bias = 127;
};

template <class T>
using Int = typename Float<T>::Int;

template <class T>
inline Int<T> as_int(T x) {
  Int<T> i;
  std::memcpy(&i, &x, sizeof(T));
  return i;
}
template <class T>
inline T as_float(Int<T> i) {
  T x;
  std::memcpy(&x, &i, sizeof(T));
  return x;
}
template <class T>
inline T power(Int<T> n) {  // 2^n
  return as_float<T>((n + Float<T>::bias) << Float<T>::bits);
}
template <class T>
inline Int<T> size_bits(T x) {
  return as_int(x) & std::numeric_limits<Int<T>>::max();
}

// The order of the numbers that Python passes.
struct Limits {
  double base, shift, lowest, highest, first, second, low, high, edge, terms;
};

enum Kind { SQRT, RSQRT, RECIPROCAL, LOG, EXP, ERF, SIN, COS };

template <class T>
struct Head {
  T even[MOST], odd[MOST], bottom[MOST], series[MOST];
  int n, terms;
  bool is_odd;
  T base;

  Head(const at::Tensor& table, const Limits& limits) {
    const double* row = table.const_data_ptr<double>();
    n = static_cast<int>(table.size(1));
    is_odd = table.size(0) == 3;
    if (!is_odd) row = load(row, even);
    row = load(row, odd);
    row = load(row, bottom);
    load(row, series);
    terms = static_cast<int>(limits.terms);
    base = static_cast<T>(limits.base);
  }

  const double* load(const double* row, T* into) const {
    for (int k = 0; k < n; k++) into[k] = static_cast<T>(row[k]);
    return row + n;
  }

  // `series` is filled from the right: its last `terms` entries count.
  template <int B>
  void operator()(const T* s, T* out) const {
    constexpr int lanes = 64 / sizeof(T);
    constexpr int wide = B >= 4 * lanes ? 4 : 1;
    typedef T Vector __attribute__((vector_size(64)));
    T sinh[B], w[B], e[B], o[B], b[B];
    const T* taylor = series + (n - terms);
    for (int start = 0; start < B; start += wide * lanes) {
      Vector y[wide], u[wide], a[wide];
      std::memcpy(y, s + start, sizeof(y));
      for (int v = 0; v < wide; v++) {
        y[v] = y[v] * base;
        u[v] = y[v] * y[v];
        a[v] = u[v] * T(0) + taylor[0];
      }
      for (int k = 1; k < terms; k++)
        for (int v = 0; v < wide; v++) a[v] = a[v] * u[v] + taylor[k];
      for (int v = 0; v < wide; v++) {
        a[v] = a[v] * y[v];
        u[v] = a[v] * a[v];
      }
      std::memcpy(sinh + start, a, sizeof(a));
      std::memcpy(w + start, u, sizeof(u));
      is_odd ? polynomials<wide, Vector, false>(u, e + start, o + start, b + start)
             : polynomials<wide, Vector, true>(u, e + start, o + start, b + start);
    }
    if (is_odd) {
      for (int i = 0; i < B; i++) out[i] = sinh[i] * o[i] / (b[i] * std::sqrt(w[i] + T(1)));
    } else {
      for (int i = 0; i < B; i++) {
        T c = std::sqrt(w[i] + T(1));
        out[i] = (e[i] * c + sinh[i] * o[i]) / (b[i] * c);
      }
    }
  }

  template <int wide, class Vector, bool with_even>
  void polynomials(const Vector* w, T* e, T* o, T* b) const {
    Vector E[wide], O[wide], B[wide];
    for (int v = 0; v < wide; v++) {
      Vector zero = w[v] * T(0);
      if (with_even) E[v] = zero + even[0];
      O[v] = zero + odd[0];
      B[v] = zero + bottom[0];
    }
    for (int k = 1; k < n; k++)
      for (int v = 0; v < wide; v++) {
        if (with_even) E[v] = E[v] * w[v] + even[k];
        O[v] = O[v] * w[v] + odd[k];
        B[v] = B[v] * w[v] + bottom[k];
      }
    if (with_even) std::memcpy(e, E, sizeof(E));
    std::memcpy(o, O, sizeof(O));
    std::memcpy(b, B, sizeof(B));
  }
};

// q = +- 2^(step k) u with edge < u <= 2^step edge, k within low..high; s = sign q scaled, less the shift.
template <class T, int B, int step>
inline void decode(const T* q, const Limits& limits, T* s, Int<T>* k) {
  const Int<T> start = as_int(static_cast<T>(limits.edge)) + 1;
  const Int<T> low = static_cast<Int<T>>(limits.low), high = static_cast<Int<T>>(limits.high);
  const T shift = static_cast<T>(limits.shift);
  for (int i = 0; i < B; i++) {
    Int<T> n = (size_bits(q[i]) - start) >> (Float<T>::bits + step - 1);
    n = n < low ? low : n;
    k[i] = n > high ? high : n;
    s[i] = q[i] * power<T>(-step * k[i]) - shift;
  }
}

template <class T, int B>
void read_decoded(const Head<T>& head, const Limits& limits, const T* q, T* out) {
  const T lowest = static_cast<T>(limits.lowest), highest = static_cast<T>(limits.highest);
  T s[B], value[B];
  Int<T> k[B];
  decode<T, B, 2>(q, limits, s, k);
  head.template operator()<B>(s, value);
  for (int i = 0; i < B; i++) {
    T size = std::fabs(q[i]), y = value[i] * power<T>(2 * k[i]);
    y = size <= lowest ? T(0) : y;
    out[i] = size > highest ? std::numeric_limits<T>::quiet_NaN() : y;
  }
}

// Roots, reciprocal, logarithm: numbers above `lowest` only, but that the root of less is 0.
template <class T, int B, int kind>
void decoded(const Head<T>& head, const Limits& limits, const T* q, T* out) {
  constexpr int step = kind == SQRT || kind == RSQRT ? 2 : 1;
  const T nan = std::numeric_limits<T>::quiet_NaN();
  const T lowest = static_cast<T>(limits.lowest), highest = static_cast<T>(limits.highest);
  const T ln2 = static_cast<T>(limits.first);
  T size[B], s[B], value[B];
  Int<T> k[B];
  for (int i = 0; i < B; i++) size[i] = kind == RECIPROCAL ? std::fabs(q[i]) : q[i];
  decode<T, B, step>(size, limits, s, k);
  head.template operator()<B>(s, value);
  for (int i = 0; i < B; i++) {
    T y;
    if constexpr (kind == SQRT) y = value[i] * power<T>(k[i]);
    if constexpr (kind == RSQRT || kind == RECIPROCAL) y = value[i] * power<T>(-k[i]);
    if constexpr (kind == LOG) y = value[i] + static_cast<T>(k[i]) * ln2;
    if constexpr (kind == SQRT) {
      y = size[i] <= lowest ? T(0) : y;
      y = size[i] < T(0) ? nan : y;
    } else {
      y = size[i] <= lowest ? nan : y;
    }
    y = size[i] > highest ? nan : y;
    out[i] = kind == RECIPROCAL ? std::copysign(y, q[i]) : y;
  }
}

template <class T, int B>
void exponential(const Head<T>& head, const Limits& limits, const T* q, T* out) {
  const T first = static_cast<T>(limits.first), second = static_cast<T>(limits.second);
  const T low = static_cast<T>(limits.low), high = static_cast<T>(limits.high);
  const T zero = static_cast<T>(limits.lowest), top = static_cast<T>(limits.highest);
  const T per = static_cast<T>(1.4426950408889634);
  T n[B], s[B], value[B];
  for (int i = 0; i < B; i++) {
    T m = std::nearbyint(q[i] * per);
    m = m < low ? low : m;
    n[i] = m > high ? high : m;
    s[i] = (q[i] - n[i] * first) - n[i] * second;
  }
  head.template operator()<B>(s, value);
  for (int i = 0; i < B; i++) {
    T y = value[i] * power<T>(static_cast<Int<T>>(n[i]));
    y = q[i] <= zero ? T(0) : y;
    out[i] = q[i] > top ? std::numeric_limits<T>::quiet_NaN() : y;
  }
}

template <class T, int B>
void error_function(const Head<T>& head, const Limits& limits, const T* q, T* out) {
  const T radius = static_cast<T>(limits.highest);
  T s[B], value[B];
  for (int i = 0; i < B; i++) {
    T x = q[i] > radius ? radius : q[i];
    s[i] = x < -radius ? -radius : x;
  }
  head.template operator()<B>(s, value);
  for (int i = 0; i < B; i++)
    out[i] = std::fabs(q[i]) > radius ? std::copysign(T(1), q[i]) : value[i];
}

template <class T, int B, bool cosine>
void turned(const Head<T>& head, const Limits& limits, const T* q, T* out) {
  const T first = static_cast<T>(limits.first), second = static_cast<T>(limits.second);
  const T reach = static_cast<T>(limits.highest);
  const T per = static_cast<T>(0.31830988618379067), half = cosine ? T(0.5) : T(0);
  T n[B], s[B], value[B];
  for (int i = 0; i < B; i++) {
    n[i] = std::floor(q[i] * per + (T(0.5) - half));
    T m = n[i] + half;
    s[i] = (q[i] - m * first) - m * second;
  }
  head.template operator()<B>(s, value);
  for (int i = 0; i < B; i++) {
    T part = n[i] * T(0.5);
    bool even = part == std::floor(part);
    T y = even == cosine ? -value[i] : value[i];
    out[i] = std::fabs(q[i]) > reach ? std::numeric_limits<T>::quiet_NaN() : y;
  }
}

// f.template operator()<B>(in, out) for every block; the last numbers in short blocks, filled up with the first.
template <class T, class F>
void in_blocks(const T* q, T* out, int64_t n, const F& f) {
  constexpr int B = 4 * 64 / sizeof(T), S = 64 / sizeof(T);
  int64_t i = 0;
  for (; i + B <= n; i += B) f(std::integral_constant<int, B>(), q + i, out + i);
  for (; i < n; i += S) {
    T in[S], result[S];
    int64_t rest = n - i < S ? n - i : S;
    for (int j = 0; j < S; j++) in[j] = q[i + (j < rest ? j : 0)];
    f(std::integral_constant<int, S>(), in, result);
    std::memcpy(out + i, result, rest * sizeof(T));
  }
}

Limits limits_of(const at::Tensor& limits) {
  TORCH_CHECK(limits.numel() * sizeof(double) == sizeof(Limits), "Ten limits are needed.");
  Limits result;
  std::memcpy(&result, limits.const_data_ptr<double>(), sizeof(Limits));
  return result;
}

template <class T>
std::tuple<at::Tensor, at::Tensor> read_as(
    const at::Tensor& q, const at::Tensor& table, const Limits& limits, bool decoder) {
  const Head<T> head(table, limits);
  at::Tensor out = at::empty_like(q, at::MemoryFormat::Contiguous);
  at::Tensor largest = at::empty({}, q.options());
  constexpr int lanes = 64 / sizeof(T);
  Int<T> top[lanes] = {};
  in_blocks(q.const_data_ptr<T>(), out.mutable_data_ptr<T>(), q.numel(),
            [&](auto size, const T* in, T* result) {
              constexpr int B = decltype(size)::value;
              for (int i = 0; i < B; i += lanes)
                for (int j = 0; j < lanes; j++) {
                  Int<T> bits = size_bits(in[i + j]);
                  top[j] = bits > top[j] ? bits : top[j];
                }
              if (decoder)
                read_decoded<T, B>(head, limits, in, result);
              else
                head.template operator()<B>(in, result);
            });
  Int<T> most = 0;
  for (int j = 0; j < lanes; j++) most = top[j] > most ? top[j] : most;
  *largest.mutable_data_ptr<T>() = as_float<T>(most);
  return {out, largest};
}

template <class T>
at::Tensor function_as(
    const at::Tensor& q, const at::Tensor& table, const Limits& limits, int64_t kind) {
  const Head<T> head(table, limits);
  at::Tensor out = at::empty_like(q, at::MemoryFormat::Contiguous);
  in_blocks(q.const_data_ptr<T>(), out.mutable_data_ptr<T>(), q.numel(),
            [&](auto size, const T* in, T* result) {
              constexpr int B = decltype(size)::value;
              switch (kind) {
                case SQRT: return decoded<T, B, SQRT>(head, limits, in, result);
                case RSQRT: return decoded<T, B, RSQRT>(head, limits, in, result);
                case RECIPROCAL: return decoded<T, B, RECIPROCAL>(head, limits, in, result);
                case LOG: return decoded<T, B, LOG>(head, limits, in, result);
                case EXP: return exponential<T, B>(head, limits, in, result);
                case ERF: return error_function<T, B>(head, limits, in, result);
                case SIN: return turned<T, B, false>(head, limits, in, result);
                case COS: return turned<T, B, true>(head, limits, in, result);
              }
            });
  return out;
}

void check(const at::Tensor& table, int64_t kind) {
  TORCH_CHECK(table.dim() == 2 && table.size(1) <= MOST && table.is_contiguous(),
              "A head's table has at most 64 columns.");
  TORCH_CHECK(kind >= SQRT && kind <= COS, "No head has this number.");
}

std::tuple<at::Tensor, at::Tensor> read_heads(
    const at::Tensor& q, const at::Tensor& table, const at::Tensor& limits, bool decoder) {
  check(table, SQRT);
  const at::Tensor dense = q.contiguous();
  if (q.scalar_type() == at::kDouble)
    return read_as<double>(dense, table, limits_of(limits), decoder);
  TORCH_CHECK(q.scalar_type() == at::kFloat, "Heads read float64 or float32.");
  return read_as<float>(dense, table, limits_of(limits), decoder);
}

at::Tensor function_heads(
    const at::Tensor& q, const at::Tensor& table, const at::Tensor& limits, int64_t kind) {
  check(table, kind);
  const at::Tensor dense = q.contiguous();
  if (q.scalar_type() == at::kDouble)
    return function_as<double>(dense, table, limits_of(limits), kind);
  TORCH_CHECK(q.scalar_type() == at::kFloat, "Heads read float64 or float32.");
  return function_as<float>(dense, table, limits_of(limits), kind);
}

}  // namespace

TORCH_LIBRARY(icgd_heads, m) {
  m.def("read(Tensor q, Tensor table, Tensor limits, bool decoder) -> (Tensor, Tensor)");
  m.def("function(Tensor q, Tensor table, Tensor limits, int kind) -> Tensor");
}
TORCH_LIBRARY_IMPL(icgd_heads, CPU, m) {
  m.impl("read", &read_heads);
  m.impl("function", &function_heads);
}
