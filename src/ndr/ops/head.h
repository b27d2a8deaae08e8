// Geometric attention for one head of one sequence, a tile of targets at a time: memory grows with the length only.
#pragma once

#include <algorithm>
#include <vector>

#include "product.h"
#include "tile.h"

// Where one head of one sequence lies: first entries and the strides between columns.
template <class T> struct Head {
    long columns, width, value_width;
    Matrix<const T> query, key, value;
    const T* side;  // left, right
    long side_stride;
    const T* open;  // as in Tile
    T stretch;      // as in Tile
};

template <class T> struct HeadGradient {
    Matrix<T> query, key, value;
    T* side;
    long side_stride;
};

// Memory that a thread keeps between calls.
template <class T> INLINE T* room(std::vector<T>& buffer, long size) {
    if (static_cast<long>(buffer.size()) < size) buffer.resize(size);
    return buffer.data();
}

// Targets in a tile: enough to keep the products busy, few enough to stay in the cache.
INLINE long tile_targets(long columns) {
    const long all = (columns + LANES - 1) / LANES * LANES;
    return std::min(all, std::max(32L, 16384 / padded(columns) / LANES * LANES));
}

template <class T> Tile<T> take(const Head<T>& head, long first) {
    Tile<T> tile{first, head.columns, padded(head.columns), head.open, {}, {}, spread<T>(1), {}, head.stretch};
    for (long r = 0; r < LANES && first + r < head.columns; ++r) {
        const T* side = head.side + (first + r) * head.side_stride;
        tile.left[r] = side[0];
        tile.right[r] = side[1];
    }
    return tile;
}

// Reads for the targets [from, to), where `from` is a multiple of eight. With `taken`, weights are rescaled to sum
// to 1 and what they are multiplied by is kept there.
template <class T>
void attend(Blas<T> blas, const Head<T>& head, long from, long to, Matrix<T> output, T* taken, T* rows) {
    const long stride = padded(head.columns), step = tile_targets(head.columns);
    for (long start = from; start < to; start += step) {
        const long targets = std::min(step, to - start);
        T* logits = rows + MARGIN;
        product<T>(blas, targets, head.columns, head.width, {head.query.data + start * head.query.stride, head.query.stride},
                   {head.key.data, head.key.stride, true}, 0, {logits, stride});
        for (long part = 0; part < targets; part += LANES) {
            Tile<T> tile = take(head, start + part);
            T* own = logits + part * stride;
            weigh_rows(tile, own);
            if (!taken) continue;
            for (long r = 0; r < LANES && part + r < targets; ++r) {
                T sum = 0;
                for (long j = 0; j < head.columns; ++j) sum += own[r * stride + j];
                const T scale = 1 / std::max<T>(sum, 1e-12);
                for (long j = 0; j < head.columns; ++j) own[r * stride + j] *= scale;
                taken[start + part + r] = scale;
            }
        }
        product<T>(blas, targets, head.value_width, head.columns, {logits, stride}, {head.value.data, head.value.stride}, 0,
                   {output.data + start * output.stride, output.stride});
    }
}

template <class T> INLINE long attend_room(long columns) { return tile_targets(columns) * padded(columns); }

// Gradients of the targets [from, to). Those of keys and values are added to what is there when `add` is set.
template <class T>
void attend_backward(Blas<T> blas, const Head<T>& head, long from, long to, Matrix<const T> output,
                            Matrix<const T> output_grad, const T* taken, HeadGradient<T> grad, bool add, T* scratch) {
    const long stride = padded(head.columns), step = tile_targets(head.columns);
    T* rows = scratch + MARGIN;
    T* grads = rows + attend_room<T>(head.columns);
    T* kept = scratch + 2 * attend_room<T>(head.columns);
    for (long start = from; start < to; start += step) {
        const long targets = std::min(step, to - start);
        const Matrix<const T> query{head.query.data + start * head.query.stride, head.query.stride};
        const Matrix<const T> got{output_grad.data + start * output_grad.stride, output_grad.stride};
        product<T>(blas, targets, head.columns, head.width, query, {head.key.data, head.key.stride, true}, 0, {rows, stride});
        product<T>(blas, targets, head.columns, head.value_width, got, {head.value.data, head.value.stride, true}, 0,
                   {grads, stride});
        for (long part = 0; part < targets; part += LANES) {
            Tile<T> tile = take(head, start + part);
            for (long r = 0; taken && r < LANES && part + r < targets; ++r) {
                const long i = start + part + r;
                tile.scale[r] = taken[i];
                // Where nothing matched the scale is a constant.
                if (taken[i] >= T(1e12)) continue;
                for (long w = 0; w < head.value_width; ++w)
                    tile.delta[r] += output.data[i * output.stride + w] * output_grad.data[i * output_grad.stride + w];
            }
            unweigh_rows(tile, rows + part * stride, grads + part * stride, kept);
            for (long r = 0; r < LANES && part + r < targets; ++r) {
                grad.side[(start + part + r) * grad.side_stride] = tile.left[r];
                grad.side[(start + part + r) * grad.side_stride + 1] = tile.right[r];
            }
        }
        const T beta = add || start > from ? 1 : 0;
        product<T>(blas, head.columns, head.value_width, targets, {rows, stride, true}, got, beta, grad.value);
        product<T>(blas, head.columns, head.width, targets, {grads, stride, true}, query, beta, grad.key);
        product<T>(blas, targets, head.width, head.columns, {grads, stride}, {head.key.data, head.key.stride}, 0,
                   {grad.query.data + start * grad.query.stride, grad.query.stride});
    }
}

template <class T> INLINE long attend_backward_room(long columns) {
    return 2 * attend_room<T>(columns) + 4 * LANES * (columns + 2 * LANES);
}
