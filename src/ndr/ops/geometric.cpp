// Geometric attention over whole tensors, for processors: ndr.ops.fused calls it.
#include <omp.h>

#include "head.h"

PRODUCT_KERNEL(float)
PRODUCT_KERNEL(double)
TILE_KERNELS(float)
TILE_KERNELS(double)

// Tensors [batch, head, column, width] whose last axis is dense; strides of the other three.
template <class T> struct Tensor {
    T* data;
    long batch, head, column;
};

template <class T> struct Problem {
    long batch, heads, columns, width, value_width, threads;
    Tensor<const T> query, key, value, side;
    const uint8_t* padding;  // [batch, column] or none
    Tensor<T> output;
    T* taken;  // [batch, head, column] with normalised weights, or none
    double stretch;
};

template <class T> struct Gradients {
    Tensor<const T> output;
    Tensor<T> query, key, value, side;
};

template <class T> const T* open_columns(const Problem<T>& p, long batch, std::vector<T>& buffer) {
    const long size = p.columns + 2 * MARGIN + LANES;
    T* open = room(buffer, size) + MARGIN;
    std::fill(open - MARGIN, open - MARGIN + size, -std::numeric_limits<T>::infinity());
    for (long j = 0; j < p.columns; ++j)
        if (!p.padding || !p.padding[batch * p.columns + j]) open[j] = 0;
    return open;
}

template <class T> T* at(const Tensor<T>& t, long batch, long head) {
    return t.data + batch * t.batch + head * t.head;
}

template <class T> Head<T> find(const Problem<T>& p, long batch, long head, const T* open) {
    return {p.columns,
            p.width,
            p.value_width,
            {at(p.query, batch, head), p.query.column},
            {at(p.key, batch, head), p.key.column},
            {at(p.value, batch, head), p.value.column},
            at(p.side, batch, head),
            p.side.column,
            open,
            static_cast<T>(p.stretch)};
}

// A part is a run of targets of one head: several only where there are fewer heads than threads.
static long parts_of(long pairs, long columns, long threads) {
    const long wanted = pairs >= threads ? 1 : (threads + pairs - 1) / pairs;
    return std::max(1L, std::min(wanted, columns / (4 * LANES)));
}
static long part_start(long columns, long part, long parts) {
    return std::min(columns, (columns * part / parts + LANES - 1) / LANES * LANES);
}

template <class T> void forward_part(Blas<T> blas, const Problem<T>& p, long part, long parts) {
    static thread_local std::vector<T> scratch, opened;
    const long pair = part / parts, batch = pair / p.heads, head = pair % p.heads;
    const T* open = open_columns(p, batch, opened);
    attend(blas, find(p, batch, head, open), part_start(p.columns, part % parts, parts),
           part_start(p.columns, part % parts + 1, parts), {at(p.output, batch, head), p.output.column},
           p.taken ? p.taken + pair * p.columns : nullptr, room(scratch, attend_room<T>(p.columns) + 2 * MARGIN));
}

template <class T>
void backward_part(Blas<T> blas, const Problem<T>& p, const Gradients<T>& g, long part, long parts, T* spare) {
    static thread_local std::vector<T> scratch, opened;
    const long pair = part / parts, batch = pair / p.heads, head = pair % p.heads;
    const T* open = open_columns(p, batch, opened);
    HeadGradient<T> grad{{at(g.query, batch, head), g.query.column},
                         {at(g.key, batch, head), g.key.column},
                         {at(g.value, batch, head), g.value.column},
                         at(g.side, batch, head),
                         g.side.column};
    // All parts of a head add to its keys and values: each has a sum of its own, added up afterwards in order.
    if (part % parts) {
        T* own = spare + (part - pair - 1) * p.columns * (p.width + p.value_width);
        grad.key = {own, p.width};
        grad.value = {own + p.columns * p.width, p.value_width};
    }
    attend_backward(blas, find(p, batch, head, open), part_start(p.columns, part % parts, parts),
                    part_start(p.columns, part % parts + 1, parts),
                    {at(p.output, batch, head), p.output.column},
                    {at(g.output, batch, head), g.output.column}, p.taken ? p.taken + pair * p.columns : nullptr, grad,
                    false, room(scratch, attend_backward_room<T>(p.columns) + 2 * MARGIN));
}

template <class T> void add_rows(const T* from, long columns, long width, T* to, long stride) {
    for (long j = 0; j < columns; ++j)
        for (long w = 0; w < width; ++w) to[j * stride + w] += from[j * width + w];
}

template <class T> void forward(Blas<T> blas, const Problem<T>& p) {
    const long pairs = p.batch * p.heads, parts = parts_of(pairs, p.columns, p.threads);
#pragma omp parallel for schedule(static) num_threads(p.threads)
    for (long part = 0; part < pairs * parts; ++part) forward_part(blas, p, part, parts);
}

template <class T> void backward(Blas<T> blas, const Problem<T>& p, const Gradients<T>& g) {
    const long pairs = p.batch * p.heads, parts = parts_of(pairs, p.columns, p.threads);
    const long size = p.columns * (p.width + p.value_width);
    std::vector<T> spare(pairs * (parts - 1) * size);
#pragma omp parallel for schedule(static) num_threads(p.threads)
    for (long part = 0; part < pairs * parts; ++part) backward_part(blas, p, g, part, parts, spare.data());
    for (long pair = 0; pair < pairs; ++pair)
        for (long part = 1; part < parts; ++part) {
            const T* own = spare.data() + (pair * (parts - 1) + part - 1) * size;
            const long batch = pair / p.heads, head = pair % p.heads;
            add_rows(own, p.columns, p.width, at(g.key, batch, head), g.key.column);
            add_rows(own + p.columns * p.width, p.columns, p.value_width, at(g.value, batch, head), g.value.column);
        }
}

extern "C" {
void forward_f32(Blas<float> blas, const Problem<float>* p) { forward(blas, *p); }
void forward_f64(Blas<double> blas, const Problem<double>* p) { forward(blas, *p); }
void backward_f32(Blas<float> blas, const Problem<float>* p, const Gradients<float>* g) { backward(blas, *p, *g); }
void backward_f64(Blas<double> blas, const Problem<double>* p, const Gradients<double>* g) { backward(blas, *p, *g); }
}
