// Matrix products, row-major: by the BLAS that torch carries where it shows one, otherwise by a plain loop.
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

template <class T>
INLINE void plain_product(long m, long n, long k, Matrix<const T> a, Matrix<const T> b, T beta, Matrix<T> c) {
    for (long i = 0; i < m; ++i) {
        T* out = c.data + i * c.stride;
        if (beta == 0) std::memset(out, 0, n * sizeof(T));
        for (long l = 0; l < k; ++l) {
            T scale = a.flip ? a.data[l * a.stride + i] : a.data[i * a.stride + l];
            if (b.flip)
                for (long j = 0; j < n; ++j) out[j] += scale * b.data[j * b.stride + l];
            else
                for (long j = 0; j < n; ++j) out[j] += scale * b.data[l * b.stride + j];
        }
    }
}

// c[m × n] = a[m × k] · b[k × n] + beta · c, with beta 0 or 1.
template <class T>
INLINE void product(Blas<T> blas, long m, long n, long k, Matrix<const T> a, Matrix<const T> b, T beta, Matrix<T> c) {
    if (m == 0 || n == 0) return;
    if (!blas) return plain_product(m, n, k, a, b, beta, c);
    // BLAS counts columns first: the same memory is the transposed problem.
    const T one = 1;
    const int columns = n, rows = m, inner = k, lda = a.stride, ldb = b.stride, ldc = c.stride;
    blas(b.flip ? "T" : "N", a.flip ? "T" : "N", &columns, &rows, &inner, &one, b.data, &ldb, a.data, &lda, &beta,
         c.data, &ldc);
}
