// Eight numbers at a time, written once for every processor, and the few functions of them that are needed.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

// A wheel must run everywhere: each kernel is compiled twice and the loader takes the one that the processor knows.
// Kernels are kept small and call each other rather than grow together, or compiling them would take minutes.
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
#define KERNEL __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define KERNEL
#endif
// Helpers must be part of the kernel that uses them, or they would be compiled for the oldest processor.
#define INLINE inline __attribute__((always_inline))
#pragma GCC diagnostic ignored "-Wpsabi"

constexpr long LANES = 8;

template <class T> struct Vector;
template <> struct Vector<float> {
    typedef float type __attribute__((vector_size(32)));
    typedef int32_t mask __attribute__((vector_size(32)));
};
template <> struct Vector<double> {
    typedef double type __attribute__((vector_size(64)));
    typedef int64_t mask __attribute__((vector_size(64)));
};
template <class T> using vec = typename Vector<T>::type;

template <class T> INLINE vec<T> load(const T* from) {
    vec<T> value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

template <class T> INLINE void store(T* to, vec<T> value) { std::memcpy(to, &value, sizeof value); }

// The same for the last few of a row: `count` is at most eight.
template <class T> INLINE vec<T> load(const T* from, long count) {
    if (count >= LANES) return load(from);
    vec<T> value{};
    for (long k = 0; k < count; ++k) value[k] = from[k];
    return value;
}

template <class T> INLINE void store(T* to, vec<T> value, long count) {
    if (count >= LANES) return store(to, value);
    for (long k = 0; k < count; ++k) to[k] = value[k];
}

template <class T> INLINE vec<T> spread(T value) { return value - vec<T>{}; }

// e^x for x ≤ 0, correct to the last bit or two; 0 for −∞, NaN for NaN.
INLINE vec<float> exp_negative(vec<float> x) {
    const vec<float> shift = spread(12582912.0f), least = spread(-87.3f);
    vec<float> bounded = x < least ? least : x;
    vec<float> whole = (bounded * 1.44269504088896341f + shift) - shift;
    vec<float> rest = bounded - whole * 0.693359375f;
    rest = rest + whole * 2.12194440e-4f;
    vec<float> series = spread(1.9875691500e-4f);
    series = series * rest + 1.3981999507e-3f;
    series = series * rest + 8.3334519073e-3f;
    series = series * rest + 4.1665795894e-2f;
    series = series * rest + 1.6666665459e-1f;
    series = series * rest + 5.0000001201e-1f;
    series = series * rest * rest + rest + 1.0f;
    auto bits = (__builtin_convertvector(whole, Vector<float>::mask) + 127) << 23;
    vec<float> power;
    std::memcpy(&power, &bits, sizeof power);
    return x < least ? vec<float>{} : series * power;
}
INLINE vec<double> exp_negative(vec<double> x) {
    for (long k = 0; k < LANES; ++k) x[k] = std::exp(x[k]);
    return x;
}

template <class V> INLINE V sigmoid(V x) {
    const V small = exp_negative(x < 0 ? x : -x), large = 1 / (1 + small);
    return x < 0 ? small * large : large;
}

template <class V> INLINE V cut(V x) {
    const V above = x < 0 ? V{} : x;
    return above > 1 ? V{} + 1 : above;
}

INLINE void transpose(vec<float> (&v)[8]) {
    typedef Vector<float>::mask pick;
    vec<float> a[8], b[8];
    for (int k = 0; k < 4; ++k) {
        a[2 * k] = __builtin_shuffle(v[2 * k], v[2 * k + 1], pick{0, 8, 1, 9, 4, 12, 5, 13});
        a[2 * k + 1] = __builtin_shuffle(v[2 * k], v[2 * k + 1], pick{2, 10, 3, 11, 6, 14, 7, 15});
    }
    for (int k = 0; k < 2; ++k)
        for (int h = 0; h < 2; ++h) {
            b[4 * k + 2 * h] = __builtin_shuffle(a[4 * k + h], a[4 * k + 2 + h], pick{0, 1, 8, 9, 4, 5, 12, 13});
            b[4 * k + 2 * h + 1] = __builtin_shuffle(a[4 * k + h], a[4 * k + 2 + h], pick{2, 3, 10, 11, 6, 7, 14, 15});
        }
    for (int k = 0; k < 4; ++k) {
        v[k] = __builtin_shuffle(b[k], b[k + 4], pick{0, 1, 2, 3, 8, 9, 10, 11});
        v[k + 4] = __builtin_shuffle(b[k], b[k + 4], pick{4, 5, 6, 7, 12, 13, 14, 15});
    }
}
INLINE void transpose(vec<double> (&v)[8]) {
    for (int r = 0; r < 8; ++r)
        for (int c = r + 1; c < 8; ++c) {
            double keep = v[r][c];
            v[r][c] = v[c][r];
            v[c][r] = keep;
        }
}
