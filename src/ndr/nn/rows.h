// The elementwise work of a step, a row (one column's state) at a time, and the random numbers of dropout.
#pragma once

#include "../ops/lanes.h"

// Dropout with rate p keeps an entry when a number below 2^31 reaches p · 2^31. The number is a function of the
// seed, the place of use, the step, the row and the entry: nothing is stored, and threads do not matter.
struct Dropout {
    int32_t below;
    float scale;
    uint64_t seed;

    static Dropout of(float rate, uint64_t seed, int place) {
        return {static_cast<int32_t>(rate * 2147483648.0), 1 / (1 - rate), seed * 8 + place};
    }
};

// SplitMix64's output function (Steele, Lea and Flood 2014).
INLINE uint64_t scatter(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

INLINE uint64_t row_key(const Dropout& d, long step, long row) {
    return scatter(scatter(d.seed + 0x632be59bd9b4e019u * static_cast<uint64_t>(step)) + static_cast<uint64_t>(row));
}

// Two rounds of a 32-bit mixer, each with a half of the key, so that no row repeats another's numbers shifted.
INLINE bool keeps(const Dropout& d, uint64_t key, uint32_t entry) {
    uint32_t x = entry * 0x9e3779b9u + static_cast<uint32_t>(key);
    x = (x ^ (x >> 16)) * 0x21f0aaadu;
    x += static_cast<uint32_t>(key >> 32);
    x = (x ^ (x >> 15)) * 0xd35a2d97u;
    x ^= x >> 15;
    return static_cast<int32_t>(x >> 1) >= d.below;
}

INLINE void drop(float* values, long size, const Dropout& d, uint64_t key) {
    if (!d.below) return;
#pragma omp simd
    for (long j = 0; j < size; ++j) values[j] = keeps(d, key, j) ? values[j] * d.scale : 0.0f;
}

INLINE void add(float* values, const float* more, long size) {
#pragma omp simd
    for (long j = 0; j < size; ++j) values[j] += more[j];
}

// LayerNorm without its scale and shift; gives back 1 / standard deviation.
INLINE float normalise(float* values, long size, float epsilon) {
    float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
    for (long j = 0; j < size; ++j) sum += values[j];
    const float mean = sum / size;
#pragma omp simd reduction(+ : squares)
    for (long j = 0; j < size; ++j) squares += (values[j] - mean) * (values[j] - mean);
    const float inverse = 1 / std::sqrt(squares / size + epsilon);
#pragma omp simd
    for (long j = 0; j < size; ++j) values[j] = (values[j] - mean) * inverse;
    return inverse;
}

// Its gradient: `grad` of the normalised values becomes that of the values.
INLINE void normalise_backward(float* grad, const float* normalised, float inverse, long size) {
    float sum = 0, along = 0;
#pragma omp simd reduction(+ : sum, along)
    for (long j = 0; j < size; ++j) {
        sum += grad[j];
        along += grad[j] * normalised[j];
    }
    sum /= size;
    along /= size;
#pragma omp simd
    for (long j = 0; j < size; ++j) grad[j] = inverse * (grad[j] - sum - normalised[j] * along);
}

// z = states + dropout(read), normalised (Eq. 1).
INLINE float take_in(const float* states, const float* read, float* out, long size, const Dropout& d, uint64_t key,
                     float epsilon) {
    if (d.below) {
#pragma omp simd
        for (long j = 0; j < size; ++j) out[j] = states[j] + (keeps(d, key, j) ? read[j] * d.scale : 0.0f);
    } else {
#pragma omp simd
        for (long j = 0; j < size; ++j) out[j] = states[j] + read[j];
    }
    return normalise(out, size, epsilon);
}

// dropout(relu(values + bias)) (Eq. 5, first half).
INLINE void rectify(float* values, const float* bias, long size, const Dropout& d, uint64_t key) {
    if (d.below) {
#pragma omp simd
        for (long j = 0; j < size; ++j) {
            const float value = values[j] + bias[j];
            values[j] = value > 0 && keeps(d, key, j) ? value * d.scale : 0.0f;
        }
    } else {
#pragma omp simd
        for (long j = 0; j < size; ++j) values[j] = values[j] + bias[j] > 0 ? values[j] + bias[j] : 0.0f;
    }
}

// A sigmoid, stretched by `stretch` beyond 0 and 1 and cut off there when that is positive.
INLINE vec<float> squash(vec<float> logit, float stretch) {
    return cut((1 + 2 * stretch) * sigmoid(logit) - stretch);
}
INLINE float squash_slope(float open, float stretch) {
    const float plain = (open + stretch) / (1 + 2 * stretch);
    const float slope = (1 + 2 * stretch) * plain * (1 - plain);
    return stretch > 0 && (open <= 0 || open >= 1) ? 0.0f : slope;
}

// Eqs. 3 and 4: logits become gates, states are replaced as far as these are open. `shut` closes the whole column.
// Gives back Σ change² − tolerance² · Σ state² of the row: not positive when the column is still. What the gates let
// through, as a share of the row, is added to `effort`.
INLINE float mix(float* gate, const float* gate_bias, float stretch, bool shut, const float* normalised,
                 const float* scale, const float* shift, const float* states, float* next, long size,
                 float tolerance, float* effort) {
    vec<float> moved{}, worked{};
    for (long j = 0; j < size; j += LANES) {
        const long count = size - j;
        const vec<float> open = squash(load(gate + j, count) + load(gate_bias + j, count), stretch);
        store(gate + j, open, count);
        vec<float> used = shut ? vec<float>{} : open;
        for (long k = count; k < LANES; ++k) used[k] = 0;
        const vec<float> state = load(states + j, count);
        const vec<float> update = load(normalised + j, count) * load(scale + j, count) + load(shift + j, count);
        const vec<float> mixed = used * update + (1 - used) * state;
        store(next + j, mixed, count);
        worked += used;
        moved += (mixed - state) * (mixed - state) - tolerance * tolerance * mixed * mixed;
    }
    float sum = 0, work = 0;
    for (long k = 0; k < LANES; ++k) sum += moved[k], work += worked[k];
    if (effort) *effort += work / size;
    return sum;
}
