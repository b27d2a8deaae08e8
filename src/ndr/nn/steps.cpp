// All steps of Layer(GeometricAttention, CopyGate) in one call, forward and backward: ndr.nn.fused calls it.
//
// Sequences never read each other, so each thread takes its own sequences through every step, a block at a time;
// a block's states stay in the cache and only what the gradient needs is written to memory.
#include <omp.h>

#include "../ops/head.h"
#include "rows.h"

PRODUCT_KERNEL(float)
TILE_KERNELS(float)

struct Problem {
    long sequences, width, heads, hidden, steps, threads, block;
    const long* offsets;  // where each sequence begins; one more for the end
    Blas<float> blas;
    // All scales, and the shifts of what is added to the query and the side, are folded in; so is the first norm.
    const float *project, *project_bias, *merge, *inner, *inner_bias, *update, *update_bias, *gate, *gate_bias, *scale,
        *shift;
    float epsilon, candidate_epsilon, stretch, match_stretch, key_rate, rate, gate_rate;
    uint64_t seed;
    const float* states;
    float* output;
    float* saved;      // what the gradient needs, or none
    float tolerance;   // without `saved`: a sequence is done when a step changes no column by more than this share of
                       // its state; negative: never
    int32_t* taken;    // steps that each sequence took, or none
    float* effort;     // with `saved`: for each row, what its gates let through, summed over the steps
    const int32_t* wake;  // for each row, the step at which it wakes up, or none: all are awake
};

struct Gradient {
    const float* output;
    const float* effort;
    float* states;
    float* weights;  // one set for each thread, all zero
};

// Rows of a multiple of eight numbers suit the products: the sides, two for each head, are filled up with zeros.
INLINE long projected_width(const Problem& p) { return 3 * p.width + (2 * p.heads + LANES - 1) / LANES * LANES; }

enum Place { KEY, READ, INNER, GATE };

// Whether a row leaves out a step: it has not woken up yet, or gate dropout closes it.
INLINE bool sleeps(const Problem& p, const Dropout& gate, long step, long row) {
    return (p.wake && step < p.wake[row]) || !keeps(gate, row_key(gate, step, row), 0);
}

// What is kept of one step for a block of rows, in this order.
struct Kept {
    float *states, *projected, *attended, *normalised, *inner, *candidate, *openness, *inverse, *inverse_candidate;
    long projects, inner_width;

    static long size(const Problem& p) { return projected_width(p) + 6 * p.width + p.hidden + 2; }

    Kept(const Problem& p, float* at, long rows) {
        projects = projected_width(p);
        inner_width = p.hidden + p.width;
        states = at;
        projected = states + rows * p.width;
        attended = projected + rows * projects;
        normalised = attended + rows * p.width;
        inner = normalised + rows * p.width;
        candidate = inner + rows * inner_width;
        openness = candidate + rows * p.width;
        inverse = openness + rows * p.width;
        inverse_candidate = inverse + rows;
    }
};

struct Chances {
    Dropout key, read, inner, gate;
    explicit Chances(const Problem& p)
        : key(Dropout::of(p.key_rate, p.seed, KEY)),
          read(Dropout::of(p.rate, p.seed, READ)),
          inner(Dropout::of(p.rate, p.seed, INNER)),
          gate(Dropout::of(p.gate_rate, p.seed, GATE)) {}
};

// Consecutive sequences of one thread. `start[s]` is the first row of sequence s inside the block.
struct Block {
    long first_sequence, first_row, rows;
    std::vector<long> start;
    long sequences() const { return static_cast<long>(start.size()) - 1; }
};

static Head<float> find(const Problem& p, const Kept& kept, long row, long columns, long head, const float* open) {
    const long part = p.width / p.heads, stride = kept.projects;
    const float* at = kept.projected + row * stride + head * part;
    return {columns, part, part, {at, stride}, {at + p.width, stride}, {at + 2 * p.width, stride},
            kept.projected + row * stride + 3 * p.width + 2 * head, stride, open, p.match_stretch};
}

// Every column of a sequence may be read; there is nothing beyond its ends.
static const float* all_open(std::vector<float>& buffer, long columns) {
    const long size = columns + 2 * MARGIN + LANES;
    float* open = room(buffer, size) + MARGIN;
    std::fill(open - MARGIN, open - MARGIN + size, -std::numeric_limits<float>::infinity());
    std::fill(open, open + columns, 0.0f);
    return open;
}

static void attend_block(const Problem& p, const Kept& kept, const Block& block) {
    static thread_local std::vector<float> opened, scratch;
    for (long s = 0; s < block.sequences(); ++s) {
        const long row = block.start[s], columns = block.start[s + 1] - row;
        const float* open = all_open(opened, columns);
        float* rows = room(scratch, attend_room<float>(columns) + 2 * MARGIN);
        for (long head = 0; head < p.heads; ++head) {
            float* out = kept.attended + row * p.width + head * (p.width / p.heads);
            attend<float>(p.blas, find(p, kept, row, columns, head, open), 0, columns, {out, p.width}, nullptr, rows);
        }
    }
}

static void attend_block_backward(const Problem& p, const Kept& kept, const Block& block, const float* output_grad,
                                  float* projected_grad) {
    static thread_local std::vector<float> opened, scratch;
    const long part = p.width / p.heads, stride = kept.projects;
    for (long s = 0; s < block.sequences(); ++s) {
        const long row = block.start[s], columns = block.start[s + 1] - row;
        const float* open = all_open(opened, columns);
        float* rows = room(scratch, attend_backward_room<float>(columns) + 2 * MARGIN);
        for (long head = 0; head < p.heads; ++head) {
            float* at = projected_grad + row * stride + head * part;
            const HeadGradient<float> grad{{at, stride}, {at + p.width, stride}, {at + 2 * p.width, stride},
                                           projected_grad + row * stride + 3 * p.width + 2 * head, stride};
            attend_backward<float>(p.blas, find(p, kept, row, columns, head, open), 0, columns, {nullptr, 0},
                                   {output_grad + row * p.width + head * part, p.width}, nullptr, grad, false, rows);
        }
    }
}

// Query, key, value and sides of the states.
KERNEL static void project_rows(const Problem& p, const Kept& kept, long rows) {
    product<float>(p.blas, rows, kept.projects, p.width, {kept.states, p.width}, {p.project, p.width, true}, 0,
                   {kept.projected, kept.projects});
    for (long r = 0; r < rows; ++r) {
        float* row = kept.projected + r * kept.projects;
        add(row, p.project_bias, p.width);
        add(row + 3 * p.width, p.project_bias + 3 * p.width, 2 * p.heads);
    }
}

// What was attended to becomes the next states, which may take the place of the states themselves. `moving` says of
// each row how far it is from being still, if wanted.
KERNEL static void update_rows(const Problem& p, const Kept& kept, long rows, long first_row, long step, float* next,
                               float* read, float* moving) {
    const long width = p.width, hidden = p.hidden;
    const Chances chances(p);
    product<float>(p.blas, rows, width, width, {kept.attended, width}, {p.merge, width, true}, 0, {read, width});
    for (long r = 0; r < rows; ++r)
        kept.inverse[r] =
            take_in(kept.states + r * width, read + r * width, kept.normalised + r * width, width, chances.read,
                    row_key(chances.read, step, first_row + r), p.epsilon);
    product<float>(p.blas, rows, kept.inner_width, width, {kept.normalised, width}, {p.inner, width, true}, 0,
                   {kept.inner, kept.inner_width});
    for (long r = 0; r < rows; ++r)
        rectify(kept.inner + r * kept.inner_width, p.inner_bias, kept.inner_width, chances.inner,
                row_key(chances.inner, step, first_row + r));
    product<float>(p.blas, rows, width, hidden, {kept.inner, kept.inner_width}, {p.update, hidden, true}, 0,
                   {kept.candidate, width});
    product<float>(p.blas, rows, width, width, {kept.inner + hidden, kept.inner_width}, {p.gate, width, true}, 0,
                   {kept.openness, width});
    for (long r = 0; r < rows; ++r) {
        float* candidate = kept.candidate + r * width;
        add(candidate, p.update_bias, width);
        kept.inverse_candidate[r] = normalise(candidate, width, p.candidate_epsilon);
        const bool shut = sleeps(p, chances.gate, step, first_row + r);
        const float moved = mix(kept.openness + r * width, p.gate_bias, p.stretch, shut, candidate, p.scale, p.shift,
                                  kept.states + r * width, next + r * width, width, p.tolerance,
                                  p.effort ? p.effort + first_row + r : nullptr);
        if (moving) moving[r] = moved;
    }
}

// One step of a block.
KERNEL static void step_forward(const Problem& p, const Kept& kept, const Block& block, long step, float* next,
                                float* read, float* moving) {
    const Chances chances(p);
    project_rows(p, kept, block.rows);
    for (long r = 0; r < block.rows; ++r)
        drop(kept.projected + r * kept.projects + p.width, p.width, chances.key,
             row_key(chances.key, step, block.first_row + r));
    attend_block(p, kept, block);
    update_rows(p, kept, block.rows, block.first_row, step, next, read, moving);
}

// The gradient of one step: `states_grad` becomes that of the states before it; weights' gradients are added up.
struct Sums {
    float *project, *project_bias, *merge, *inner, *inner_bias, *update, *update_bias, *gate, *gate_bias, *scale, *shift;

    static long size(const Problem& p) {
        const long d = p.width, projected = projected_width(p), inner = p.hidden + d;
        return projected * d + projected + d * d + inner * d + inner + d * p.hidden + d + d * d + d + d + d;
    }

    Sums(const Problem& p, float* at) {
        const long d = p.width, projected = projected_width(p), wide = p.hidden + d;
        project = at;
        project_bias = project + projected * d;
        merge = project_bias + projected;
        inner = merge + d * d;
        inner_bias = inner + wide * d;
        update = inner_bias + wide;
        update_bias = update + d * p.hidden;
        gate = update_bias + d;
        gate_bias = gate + d * d;
        scale = gate_bias + d;
        shift = scale + d;
    }
};

KERNEL static void step_backward(const Problem& p, const Kept& kept, const Block& block, long step, float* states_grad,
                                 const float* effort_grad, const Sums& sums, float* scratch) {
    const long width = p.width, rows = block.rows, hidden = p.hidden, wide = kept.inner_width;
    const Chances chances(p);
    float* candidate_grad = scratch;
    float* gate_grad = candidate_grad + rows * width;
    float* inner_grad = gate_grad + rows * width;
    float* read_grad = inner_grad + rows * wide;
    float* attended_grad = candidate_grad;  // no longer needed by then
    float* projected_grad = read_grad + rows * width;
    for (long r = 0; r < rows; ++r) {
        const float *states = kept.states + r * width, *candidate = kept.candidate + r * width;
        const float* open = kept.openness + r * width;
        float *grad = states_grad + r * width, *for_candidate = candidate_grad + r * width;
        float* for_gate = gate_grad + r * width;
        const float for_effort = effort_grad[block.first_row + r] / width;
        const float kept_open = sleeps(p, chances.gate, step, block.first_row + r) ? 0 : 1;
#pragma omp simd
        for (long j = 0; j < width; ++j) {
            const float gate = kept_open * open[j];
            const float update = candidate[j] * p.scale[j] + p.shift[j];
            const float for_update = grad[j] * gate;
            for_gate[j] = kept_open * (grad[j] * (update - states[j]) + for_effort) * squash_slope(open[j], p.stretch);
            sums.gate_bias[j] += for_gate[j];
            sums.scale[j] += for_update * candidate[j];
            sums.shift[j] += for_update;
            for_candidate[j] = for_update * p.scale[j];
            grad[j] *= 1 - gate;
        }
        normalise_backward(for_candidate, candidate, kept.inverse_candidate[r], width);
        add(sums.update_bias, for_candidate, width);
    }
    product<float>(p.blas, rows, hidden, width, {candidate_grad, width}, {p.update, hidden}, 0, {inner_grad, wide});
    product<float>(p.blas, rows, width, width, {gate_grad, width}, {p.gate, width}, 0, {inner_grad + hidden, wide});
    product<float>(p.blas, width, hidden, rows, {candidate_grad, width, true}, {kept.inner, wide}, 1, {sums.update, hidden});
    product<float>(p.blas, width, width, rows, {gate_grad, width, true}, {kept.inner + hidden, wide}, 1, {sums.gate, width});
    const float scale = chances.inner.below ? chances.inner.scale : 1.0f;
    for (long r = 0; r < rows; ++r) {
        const float* inner = kept.inner + r * wide;
        float* grad = inner_grad + r * wide;
#pragma omp simd
        for (long j = 0; j < wide; ++j) {
            // What ReLU or dropout closed is exactly 0.
            grad[j] = inner[j] > 0 ? grad[j] * scale : 0.0f;
            sums.inner_bias[j] += grad[j];
        }
    }
    product<float>(p.blas, rows, width, wide, {inner_grad, wide}, {p.inner, width}, 0, {read_grad, width});
    product<float>(p.blas, wide, width, rows, {inner_grad, wide, true}, {kept.normalised, width}, 1, {sums.inner, width});
    for (long r = 0; r < rows; ++r) {
        float* grad = read_grad + r * width;
        normalise_backward(grad, kept.normalised + r * width, kept.inverse[r], width);
        add(states_grad + r * width, grad, width);
        drop(grad, width, chances.read, row_key(chances.read, step, block.first_row + r));
    }
    product<float>(p.blas, rows, width, width, {read_grad, width}, {p.merge, width}, 0, {attended_grad, width});
    product<float>(p.blas, width, width, rows, {read_grad, width, true}, {kept.attended, width}, 1, {sums.merge, width});
    attend_block_backward(p, kept, block, attended_grad, projected_grad);
    for (long r = 0; r < rows; ++r) {
        float* grad = projected_grad + r * kept.projects;
        add(sums.project_bias, grad, width);
        drop(grad + width, width, chances.key, row_key(chances.key, step, block.first_row + r));
        std::fill(grad + 3 * width + 2 * p.heads, grad + kept.projects, 0.0f);
        add(sums.project_bias + 3 * width, grad + 3 * width, 2 * p.heads);
    }
    product<float>(p.blas, rows, width, kept.projects, {projected_grad, kept.projects}, {p.project, width}, 1,
                   {states_grad, width});
    product<float>(p.blas, kept.projects, width, rows, {projected_grad, kept.projects, true},
                   {kept.states, width}, 1, {sums.project, width});
}

static long backward_room(const Problem& p) { return 4 * p.width + p.hidden + projected_width(p); }

// The blocks of one thread: whole sequences, about the same number of rows for every thread.
template <class Do> static void for_blocks(const Problem& p, long thread, Do&& run) {
    const long all = p.offsets[p.sequences];
    const long* end = p.offsets + p.sequences;
    const long* from = std::lower_bound(p.offsets, end, all * thread / p.threads);
    const long* to = std::lower_bound(p.offsets, end, all * (thread + 1) / p.threads);
    // Blocks of equal size rather than full ones and a rest.
    const long rows = *to - *from, limit = rows / std::max(1L, (rows + p.block - 1) / p.block);
    while (from < to) {
        Block block{from - p.offsets, *from, 0, {0}};
        while (from < to && (block.rows == 0 || block.rows < limit)) {
            ++from;
            block.rows = *from - block.first_row;
            block.start.push_back(block.rows);
        }
        if (block.rows) run(block);
    }
}

static void run_training(const Problem& p, const Block& block, std::vector<float>& buffer) {
    const long size = Kept::size(p) * block.rows, states = block.rows * p.width;
    float* slab = p.saved + block.first_row * p.steps * Kept::size(p);
    std::memcpy(slab, p.states + block.first_row * p.width, states * sizeof(float));
    float* read = room(buffer, states);
    for (long step = 0; step < p.steps; ++step) {
        float* next = step + 1 < p.steps ? slab + (step + 1) * size : p.output + block.first_row * p.width;
        step_forward(p, Kept(p, slab + step * size, block.rows), block, step, next, read, nullptr);
    }
}

// Without a gradient one step's room serves all, and a sequence that has come to rest leaves the block.
static void run_inference(const Problem& p, Block block, std::vector<float>& buffer) {
    const long width = p.width, rows = block.rows;
    float* slab = room(buffer, rows * (Kept::size(p) + width + 1));
    float *read = slab + rows * Kept::size(p), *moving = read + rows * width;
    std::memcpy(slab, p.states + block.first_row * width, rows * width * sizeof(float));
    std::vector<long> active;
    for (long s = 0; s < block.sequences(); ++s) active.push_back(block.first_sequence + s);
    for (long step = 0; step < p.steps && !active.empty(); ++step) {
        const Kept kept(p, slab, block.rows);
        const bool last = step + 1 == p.steps;
        step_forward(p, kept, block, step, kept.states, read, moving);
        long left = 0, row = 0;
        std::vector<long> start{0};
        for (size_t s = 0; s < active.size(); ++s) {
            const long from = block.start[s], columns = block.start[s + 1] - from;
            const float* states = kept.states + from * width;
            const bool still = p.tolerance >= 0 && std::all_of(moving + from, moving + from + columns,
                                                               [](float moved) { return moved <= 0; });
            if (still || last) {
                std::memcpy(p.output + p.offsets[active[s]] * width, states, columns * width * sizeof(float));
                if (p.taken) p.taken[active[s]] = step + 1;
                continue;
            }
            if (row != from) std::memmove(kept.states + row * width, states, columns * width * sizeof(float));
            active[left++] = active[s];
            start.push_back(row += columns);
        }
        active.resize(left);
        block.rows = row;
        block.start = std::move(start);
    }
}

#include "events.h"

extern "C" {
long saved_per_row(const Problem* p) { return Kept::size(*p); }
long sums_size(const Problem* p) { return Sums::size(*p); }

void forward(const Problem* problem) {
    const Problem& p = *problem;
#pragma omp parallel for schedule(static, 1) num_threads(p.threads)
    for (long thread = 0; thread < p.threads; ++thread) {
        static thread_local std::vector<float> buffer;
        for_blocks(p, thread, [&](const Block& block) {
            p.saved ? run_training(p, block, buffer) : run_inference(p, block, buffer);
        });
    }
}

// As `forward` without a gradient, for a crisp layer and long sequences.
void follow(const Problem* problem) {
    const Problem& p = *problem;
#pragma omp parallel for schedule(dynamic, 1) num_threads(p.threads)
    for (long s = 0; s < p.sequences; ++s) {
        static thread_local std::vector<float> buffer;
        run_events(p, s, buffer);
    }
}

void backward(const Problem* problem, const Gradient* gradient) {
    const Problem& p = *problem;
#pragma omp parallel for schedule(static, 1) num_threads(p.threads)
    for (long thread = 0; thread < p.threads; ++thread) {
        static thread_local std::vector<float> buffer;
        const Sums sums(p, gradient->weights + thread * Sums::size(p));
        for_blocks(p, thread, [&](const Block& block) {
            const long size = Kept::size(p) * block.rows;
            float* slab = p.saved + block.first_row * p.steps * Kept::size(p);
            float* grad = gradient->states + block.first_row * p.width;
            std::memcpy(grad, gradient->output + block.first_row * p.width, block.rows * p.width * sizeof(float));
            float* scratch = room(buffer, block.rows * backward_room(p));
            for (long step = p.steps - 1; step >= 0; --step)
                step_backward(p, Kept(p, slab + step * size, block.rows), block, step, grad, gradient->effort, sums, scratch);
        });
    }
}
}
