// Matrix products, row-major: large ones by the BLAS that torch carries, where it shows one; small ones right here.
#pragma once

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

// Row i of c for eight columns from `j`, where b is read transposed: eight dot products, added up side by side.
template <class T>
INLINE void dots(long i, long j, long n, long k, Matrix<const T> a, Matrix<const T> b, T beta, Matrix<T> c) {
    const T* left = a.data + i * a.stride;
    const T* right[8];
    for (long s = 0; s < LANES; ++s) right[s] = b.data + (j + s < n ? j + s : n - 1) * b.stride;
    vec<T> sums[8];
    for (int s = 0; s < 8; ++s) sums[s] = vec<T>{};
    long l = 0;
    for (; l + LANES <= k; l += LANES) {
        const vec<T> value = load(left + l);
#pragma GCC unroll 8
        for (int s = 0; s < 8; ++s) sums[s] += value * load(right[s] + l);
    }
    if (l < k)
        for (int s = 0; s < 8; ++s) sums[s] += load(left + l, k - l) * load(right[s] + l, k - l);
    transpose(sums);
    vec<T> total = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
    T* out = c.data + i * c.stride + j;
    store(out, beta == 0 ? total : total + load(out, n - j), n - j);
}

// ROWS rows of c for VECTORS · 8 columns from `j`: rows of b, each times one number for every row of c. Only `count`
// of the last eight columns are there.
template <int ROWS, int VECTORS, class T>
INLINE void rows_of(long i, long j, long count, long k, Matrix<const T> a, Matrix<const T> b, T beta, Matrix<T> c) {
    vec<T> sums[ROWS][VECTORS];
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; ++r)
        for (int v = 0; v < VECTORS; ++v) sums[r][v] = vec<T>{};
    const long down = a.flip ? 1 : a.stride, along = a.flip ? a.stride : 1;
    const T *left = a.data + i * down, *right = b.data + j;
    for (long l = 0; l < k; ++l, left += along, right += b.stride) {
        vec<T> row[VECTORS];
#pragma GCC unroll 8
        for (int v = 0; v < VECTORS; ++v) row[v] = VECTORS > 1 ? load(right + v * LANES) : load(right, count);
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 8
            for (int v = 0; v < VECTORS; ++v) sums[r][v] += left[r * down] * row[v];
    }
    for (int r = 0; r < ROWS; ++r)
        for (int v = 0; v < VECTORS; ++v) {
            T* out = c.data + (i + r) * c.stride + j + v * LANES;
            store(out, beta == 0 ? sums[r][v] : sums[r][v] + load(out, count), count);
        }
}

template <int ROWS, class T>
INLINE void row_group(long i, long n, long k, Matrix<const T> a, Matrix<const T> b, T beta, Matrix<T> c) {
    long j = 0;
    for (; j + 2 * LANES <= n; j += 2 * LANES) rows_of<ROWS, 2>(i, j, LANES, k, a, b, beta, c);
    if (j + LANES <= n) rows_of<ROWS, 1>(i, j, LANES, k, a, b, beta, c), j += LANES;
    if (j < n) rows_of<ROWS, 1>(i, j, n - j, k, a, b, beta, c);
}

template <class T>
INLINE void multiply(long m, long n, long k, Matrix<const T> a, Matrix<const T> b, T beta, Matrix<T> c) {
    if (b.flip) {
        for (long j = 0; j < n; j += LANES)
            for (long i = 0; i < m; ++i) dots(i, j, n, k, a, b, beta, c);
        return;
    }
    long i = 0;
    for (; i + 4 <= m; i += 4) row_group<4>(i, n, k, a, b, beta, c);
    for (; i < m; ++i) row_group<1>(i, n, k, a, b, beta, c);
}

#define PRODUCT_KERNEL(T)                                                                                             \
    KERNEL static void small_product(long m, long n, long k, const Matrix<const T>& a, const Matrix<const T>& b,      \
                                     T beta, const Matrix<T>& c) {                                                    \
        multiply(m, n, k, a, b, beta, c);                                                                             \
    }

// c[m × n] = a[m × k] · b[k × n] + beta · c, with beta 0 or 1. Not both of a and b are read transposed.
template <class T>
void product(Blas<T> blas, long m, long n, long k, Matrix<const T> a, Matrix<const T> b, T beta, Matrix<T> c) {
    if (!blas || m * n * k <= SMALL) return small_product(m, n, k, a, b, beta, c);
    // BLAS counts columns first: the same memory is the transposed problem.
    const T one = 1;
    const int columns = n, rows = m, inner = k, lda = a.stride, ldb = b.stride, ldc = c.stride;
    blas(b.flip ? "T" : "N", a.flip ? "T" : "N", &columns, &rows, &inner, &one, b.data, &ldb, a.data, &lda, &beta,
         c.data, &ldc);
}
