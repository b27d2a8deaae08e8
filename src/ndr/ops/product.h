// Matrix products, row-major: small ones right here, and narrow ones where the processor's vectors are as wide as ours;
// all others by the BLAS that torch carries, where it shows one.
#pragma once

#include <algorithm>

#include "lanes.h"

template <class T>
using Blas = void (*)(const char*, const char*, const int*, const int*, const int*, const T*, const T*, const int*,
                      const T*, const int*, const T*, T*, const int*);

// One matrix as it lies in memory; `flip` reads it transposed.
template <class T> struct Matrix {
    T* data;
    long stride;
    bool flip = false;
};

// Below this many multiplications BLAS spends more on its preparations than on the product.
constexpr long SMALL = 64 * 64 * 64;
// Up to this inner size and number of columns it still spends a third; with vectors of eight we are quicker.
constexpr long NARROW = 512;
// Rows of b that are taken at once: sixteen columns of them stay in the nearest cache.
constexpr long DEEP = 256;

// ROWS rows of c for VECTORS · 8 columns: rows of a panel of b, each times one number for every row of c. Only `count`
// of the last eight columns are there.
template <int ROWS, int VECTORS, class T>
INLINE void rows_of(long i, long k, Matrix<const T> a, const T* panel, T beta, Matrix<T> c, long count) {
    vec<T> sums[ROWS][VECTORS];
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < VECTORS; ++v) sums[r][v] = vec<T>{};
    const long down = a.flip ? 1 : a.stride, along = a.flip ? a.stride : 1;
    const T* left = a.data + i * down;
    for (long l = 0; l < k; ++l, left += along, panel += VECTORS * LANES) {
        vec<T> row[VECTORS];
#pragma GCC unroll 8
        for (int v = 0; v < VECTORS; ++v) row[v] = load(panel + v * LANES);
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 8
            for (int v = 0; v < VECTORS; ++v) sums[r][v] += left[r * down] * row[v];
    }
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < VECTORS; ++v) {
            T* out = c.data + (i + r) * c.stride + v * LANES;
            const long here = v + 1 < VECTORS ? LANES : count;
            store(out, beta == 0 ? sums[r][v] : sums[r][v] + load(out, here), here);
        }
}

// All rows of c from row i, as many at a time as there are registers for, then fewer.
template <int ROWS, int VECTORS, class T>
INLINE void strip(long i, long m, long k, Matrix<const T> a, const T* panel, T beta, Matrix<T> c, long count) {
    for (; i + ROWS <= m; i += ROWS) rows_of<ROWS, VECTORS>(i, k, a, panel, beta, c, count);
    if constexpr (ROWS > 1) strip<ROWS / 2, VECTORS>(i, m, k, a, panel, beta, c, count);
}

// VECTORS · 8 columns of b, of which `count` are there, side by side; nothing stands where b has ended.
template <int VECTORS, class T> INLINE void gather(long count, long k, Matrix<const T> b, T* panel) {
    for (int v = 0; v < VECTORS; ++v, count -= LANES) {
        T* to = panel + v * LANES;
        if (!b.flip) {
            for (long l = 0; l < k; ++l) store(to + l * VECTORS * LANES, load(b.data + l * b.stride + v * LANES, count));
            continue;
        }
        for (long l = 0; l < k; l += LANES) {
            vec<T> part[8];
            for (long s = 0; s < LANES; ++s)
                part[s] = s < count ? load(b.data + (v * LANES + s) * b.stride + l, k - l) : vec<T>{};
            transpose(part);
            for (long s = 0; s < LANES; ++s) store(to + (l + s) * VECTORS * LANES, part[s]);
        }
    }
}

template <int ROWS, int VECTORS, class T>
INLINE void columns_of(long j, long m, long n, long k, Matrix<const T> a, Matrix<const T> b, T beta, Matrix<T> c,
                       T* panel) {
    gather<VECTORS>(n - j, k, {b.data + j * (b.flip ? b.stride : 1), b.stride, b.flip}, panel);
    strip<ROWS, VECTORS>(0, m, k, a, panel, beta, {c.data + j, c.stride}, std::min(n - j - (VECTORS - 1) * LANES, LANES));
}

template <class T>
INLINE void multiply(long m, long n, long k, Matrix<const T> a, Matrix<const T> b, T beta, Matrix<T> c) {
    alignas(64) T panel[DEEP * 2 * LANES];
    for (long from = 0; from < k || from == 0; from += DEEP) {
        const long deep = std::min(DEEP, k - from);
        const Matrix<const T> left{a.data + from * (a.flip ? a.stride : 1), a.stride, a.flip};
        const Matrix<const T> right{b.data + from * (b.flip ? 1 : b.stride), b.stride, b.flip};
        const T add = from > 0 ? T(1) : beta;
        long j = 0;
        for (; j + LANES < n; j += 2 * LANES) columns_of<6, 2>(j, m, n, deep, left, right, add, c, panel);
        if (j < n) columns_of<8, 1>(j, m, n, deep, left, right, add, c, panel);
    }
}

#define PRODUCT_KERNEL(T)                                                                                             \
    KERNEL static void small_product(long m, long n, long k, const Matrix<const T>& a, const Matrix<const T>& b,      \
                                     T beta, const Matrix<T>& c) {                                                    \
        multiply(m, n, k, a, b, beta, c);                                                                             \
    }

// Whether this processor has vectors of eight numbers and torch's BLAS would use no wider ones, as MKL on AMD's.
INLINE bool eight_wide() {
#if defined(__x86_64__) && defined(__GNUC__)
    static const bool fits = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                             (!__builtin_cpu_supports("avx512f") || __builtin_cpu_is("amd"));
    return fits;
#else
    return false;
#endif
}

// c[m × n] = a[m × k] · b[k × n] + beta · c, with beta 0 or 1. Not both of a and b are read transposed.
template <class T>
void product(Blas<T> blas, long m, long n, long k, Matrix<const T> a, Matrix<const T> b, T beta, Matrix<T> c) {
    const bool narrow = n <= NARROW && k <= NARROW && sizeof(T) == 4 && eight_wide();
    if (!blas || narrow || m * n * k <= SMALL) return small_product(m, n, k, a, b, beta, c);
    // BLAS counts columns first: the same memory is the transposed problem.
    const T one = 1;
    const int columns = n, rows = m, inner = k, lda = a.stride, ldb = b.stride, ldc = c.stride;
    blas(b.flip ? "T" : "N", a.flip ? "T" : "N", &columns, &rows, &inner, &one, b.data, &ldb, a.data, &lda, &beta,
         c.data, &ldc);
}
