// Geometric attention for eight targets at a time: Eq. 7 as a running product, and its gradient.
//
// Lane r of a vector is target `first + r`; a block of eight sources is read along the diagonal, so that all lanes
// look at the same distance and the product over distances is one multiplication for eight targets.
#pragma once

#include "lanes.h"

// Diagonal blocks reach up to 14 places beyond either end of a row.
constexpr long MARGIN = 16;

INLINE long padded(long columns) { return (columns + LANES - 1) / LANES * LANES + 2 * MARGIN; }

// Eight targets' rows in memory. `open[j]` is 0 where column j may be read and −∞ elsewhere, also in the margins.
template <class T> struct Tile {
    long first, columns, stride;
    const T* open;
    vec<T> left, right;
    // With normalised weights: what a target's weights are multiplied by, and Σ_j g_j·A_j; otherwise 1 and 0.
    vec<T> scale, delta;
    // How far P reaches beyond 0 and 1 before it is cut off there.
    T stretch;

    INLINE long reach_right() const { return columns - 1 - first; }
    INLINE long reach_left() const { return first + LANES - 1 < columns ? first + LANES - 1 : columns - 1; }
    INLINE long reach() const { return reach_right() > reach_left() ? reach_right() : reach_left(); }
};

// v[k] = the entries at distance `distance + k` on one side of their targets; and back.
template <bool RIGHT, class T> INLINE void read(const Tile<T>& tile, const T* rows, long distance, vec<T> (&v)[8]) {
    for (long r = 0; r < LANES; ++r) {
        long at = tile.first + r + (RIGHT ? distance : -distance - 7);
        v[r] = load(rows + r * tile.stride + at);
    }
    transpose(v);
    if (!RIGHT)
        for (int k = 0; k < 4; ++k) {
            vec<T> keep = v[k];
            v[k] = v[7 - k];
            v[7 - k] = keep;
        }
}

template <bool RIGHT, class T> INLINE void write(const Tile<T>& tile, T* rows, long distance, vec<T> (&v)[8]) {
    if (!RIGHT)
        for (int k = 0; k < 4; ++k) {
            vec<T> keep = v[k];
            v[k] = v[7 - k];
            v[7 - k] = keep;
        }
    transpose(v);
    for (long r = 0; r < LANES; ++r) {
        long at = tile.first + r + (RIGHT ? distance : -distance - 7);
        store(rows + r * tile.stride + at, v[r]);
    }
}

// Logits become P = σ(logit), stretched and cut off if asked; `missed` becomes 1 − P, without subtracting if it is
// not. One exponential per pair.
template <bool RIGHT, class T>
INLINE void match(const Tile<T>& tile, long distance, vec<T> (&logits)[8], vec<T> (&missed)[8]) {
    const vec<T> never = spread(-std::numeric_limits<T>::infinity());
    for (long k = 0; k < LANES; ++k) {
        long at = tile.first + (RIGHT ? distance + k : -distance - k);
        vec<T> logit = logits[k] + (RIGHT ? tile.right : tile.left);
        logit = load(tile.open + at) == 0 ? logit : never;
        vec<T> small = exp_negative(logit < 0 ? logit : -logit);
        vec<T> large = 1 / (1 + small);
        small *= large;
        logits[k] = logit < 0 ? small : large;
        missed[k] = logit < 0 ? large : small;
        if (tile.stretch > 0) {
            logits[k] = cut((1 + 2 * tile.stretch) * logits[k] - tile.stretch);
            missed[k] = 1 - logits[k];
        }
    }
}

// The rows of logits become rows of weights.
template <class T> INLINE void weigh(const Tile<T>& tile, T* rows) {
    vec<T> rest = spread<T>(1);
    for (long distance = 1; distance <= tile.reach(); distance += LANES) {
        const bool right = distance <= tile.reach_right(), left = distance <= tile.reach_left();
        vec<T> near[8], far[8], not_near[8], not_far[8];
        if (!right || !left)
            for (int k = 0; k < 8; ++k) near[k] = far[k] = vec<T>{}, not_near[k] = not_far[k] = spread<T>(1);
        if (right) read<true>(tile, rows, distance, near), match<true>(tile, distance, near, not_near);
        if (left) read<false>(tile, rows, distance, far), match<false>(tile, distance, far, not_far);
        for (int k = 0; k < 8; ++k) {
            // At equal distance the right source is asked first.
            near[k] *= rest;
            rest *= not_near[k];
            far[k] *= rest;
            rest *= not_far[k];
        }
        if (right) write<true>(tile, rows, distance, near);
        if (left) write<false>(tile, rows, distance, far);
    }
    for (long r = 0; r < LANES; ++r) rows[r * tile.stride + tile.first + r] = 0;
}

// dP/dlogit divided by P and by 1 − P.
template <class V, class T> INLINE void slopes(V p, T stretch, V& own, V& others) {
    const V slope = (p + stretch) * (1 + stretch - p) / (1 + 2 * stretch);
    own = (p > 0 && p < 1) ? slope / p : V{};
    others = (p > 0 && p < 1) ? slope / (1 - p) : V{};
}

// The gradient needs no division: with g the gradient of the weights A,
//   dlogit_j = g_j·A_j·(1 − P_j) − P_j·Σ_{m farther than j} g_m·A_m.
// Of a stretched P it needs two, and has none where P is cut off: see `slopes`.
// `rows` holds logits and becomes the weights, `grads` holds g and becomes the gradient of the logits, and the tile's
// `left` and `right` become their sums over either side.
// The tile's `delta` is subtracted from g. `kept` has room for four vectors for every distance.
template <class T> INLINE void unweigh(Tile<T>& tile, T* rows, T* grads, T* kept) {
    const vec<T> delta = tile.delta;
    vec<T> rest = spread<T>(1);
    const long reach = tile.reach(), end = (reach + LANES - 1) / LANES * LANES;
    for (long distance = 1; distance <= reach; distance += LANES) {
        const bool is_right = distance <= tile.reach_right(), is_left = distance <= tile.reach_left();
        vec<T> near[8], far[8], not_near[8], not_far[8], near_grad[8], far_grad[8];
        if (!is_right || !is_left)
            for (int k = 0; k < 8; ++k) {
                near[k] = far[k] = near_grad[k] = far_grad[k] = vec<T>{};
                not_near[k] = not_far[k] = spread<T>(1);
            }
        if (is_right) {
            read<true>(tile, rows, distance, near), match<true>(tile, distance, near, not_near);
            read<true>(tile, grads, distance, near_grad);
        }
        if (is_left) {
            read<false>(tile, rows, distance, far), match<false>(tile, distance, far, not_far);
            read<false>(tile, grads, distance, far_grad);
        }
        T* keep = kept + (distance - 1) * 4 * LANES;
        for (int k = 0; k < 8; ++k) {
            const vec<T> p = near[k], q = far[k];
            near[k] *= rest;
            rest *= not_near[k];
            far[k] *= rest;
            rest *= not_far[k];
            near[k] *= tile.scale;
            far[k] *= tile.scale;
            // Places that may not be read have no weight, whatever their gradient is.
            store(keep, p), store(keep + LANES, p == 0 ? vec<T>{} : near[k] * (near_grad[k] - delta));
            store(keep + 2 * LANES, q), store(keep + 3 * LANES, q == 0 ? vec<T>{} : far[k] * (far_grad[k] - delta));
            keep += 4 * LANES;
        }
        if (is_right) write<true>(tile, rows, distance, near);
        if (is_left) write<false>(tile, rows, distance, far);
    }
    vec<T> farther{}, left{}, right{};
    for (long distance = end - LANES + 1; distance >= 1; distance -= LANES) {
        vec<T> near[8], far[8];
        const T* keep = kept + (distance - 1) * 4 * LANES;
        for (int k = 7; k >= 0; --k) {
            const T* at = keep + k * 4 * LANES;
            vec<T> p = load(at), share = load(at + LANES), q = load(at + 2 * LANES), far_share = load(at + 3 * LANES);
            vec<T> own = 1 - q, others = q;
            if (tile.stretch > 0) slopes(q, tile.stretch, own, others);
            far[k] = far_share * own - others * farther;
            farther += far_share;
            own = 1 - p, others = p;
            if (tile.stretch > 0) slopes(p, tile.stretch, own, others);
            near[k] = share * own - others * farther;
            farther += share;
            left += far[k];
            right += near[k];
        }
        if (distance <= tile.reach_right()) write<true>(tile, grads, distance, near);
        if (distance <= tile.reach_left()) write<false>(tile, grads, distance, far);
    }
    for (long r = 0; r < LANES; ++r)
        rows[r * tile.stride + tile.first + r] = grads[r * tile.stride + tile.first + r] = 0;
    tile.left = left;
    tile.right = right;
}

#define TILE_KERNELS(T)                                                                                               \
    KERNEL static void weigh_rows(const Tile<T>& tile, T* rows) { weigh(tile, rows); }                                \
    KERNEL static void unweigh_rows(Tile<T>& tile, T* rows, T* grads, T* kept) { unweigh(tile, rows, grads, kept); }
