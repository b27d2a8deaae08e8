// Inference that only recomputes what can have changed: for crisp routers on long inputs.
//
// A column needs a new look when its own state changed, or that of a column it can read from. With crisp matches a
// target gives exactly no weight to most columns, and none to those behind a certain match. A step then costs as much
// as its events, not as its columns. Included by steps.cpp, whose `Problem` and `Kept` it uses.
#pragma once

// What is left of a target's attention below which nothing farther can change the last bit of what it reads.
constexpr float NOTHING = 1e-9f;
// A change of a state below this share of it (in root mean square) is rounding.
constexpr float ROUNDING = 1e-6f;
// Pairs of columns are looked at one by one here, and many at once where all columns are computed: so many times as fast,
// all in all.
constexpr long PLAIN_SPEED = 2;
// Steps after the first before what was looked at is compared.
constexpr long TRIAL = 4;

INLINE float dot(const float* a, const float* b, long size) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (long j = 0; j < size; ++j) sum += a[j] * b[j];
    return sum;
}

// One sequence between two steps.
struct Sequence {
    long columns;
    float* states;     // [column, width]
    float* projected;  // [column, projected width]: query, key, value and the sides of the states
    std::vector<float> old_keys;
    std::vector<long> reach;  // [column, head]: the distance beyond which a target reads nothing whatever is there
    std::vector<long> changed, affected;
    std::vector<char> marked;
};

// A target reads outwards until its attention is used up. Logits up to `threshold` are no match.
INLINE long look(const Problem& p, const Sequence& s, long target, long head, float threshold, float* out) {
    const long part = p.width / p.heads, stride = projected_width(p);
    const float* row = s.projected + target * stride;
    const float *query = row + head * part, *side = row + 3 * p.width + 2 * head;
    float rest = 1;
    std::fill(out, out + part, 0.0f);
    for (long distance = 1; distance < s.columns; ++distance)
        for (long right = 1; right >= 0; --right) {
            const long source = right ? target + distance : target - distance;
            if (source < 0 || source >= s.columns) continue;
            const float* other = s.projected + source * stride + head * part;
            const float logit = dot(query, other + p.width, part) + side[right];
            if (logit <= threshold) continue;
            const float match = squash(spread(logit), p.match_stretch)[0];
            if (match <= 0) continue;
            const float weight = match * rest;
#pragma omp simd
            for (long j = 0; j < part; ++j) out[j] += weight * other[2 * p.width + j];
            rest *= 1 - match;
            if (rest < NOTHING) return distance;
        }
    return s.columns;
}

// Marks the targets whose reading can differ because a column changed: those that matched it, or do so now.
INLINE void mark(const Problem& p, Sequence& s, long source, const float* old_key, float threshold) {
    const long part = p.width / p.heads, stride = projected_width(p);
    for (long target = 0; target < s.columns; ++target) {
        if (s.marked[target]) continue;
        const long distance = std::abs(target - source);
        const float* row = s.projected + target * stride;
        for (long head = 0; head < p.heads && !s.marked[target]; ++head) {
            if (distance > s.reach[target * p.heads + head]) continue;
            const float side = row[3 * p.width + 2 * head + (source > target)];
            const float* key = s.projected + source * stride + p.width + head * part;
            const float now = dot(row + head * part, key, part) + side;
            const float before = dot(row + head * part, old_key + head * part, part) + side;
            s.marked[target] = target == source || now > threshold || before > threshold;
        }
    }
    s.marked[source] = 1;
}

static void project_rows(const Problem& p, const Kept& kept, long rows);
static void update_rows(const Problem& p, const Kept& kept, long rows, long first_row, long step, float* next,
                        float* read, float* moving);

KERNEL static void read_columns(const Problem& p, Sequence& s, float threshold, const Kept& kept) {
    const long part = p.width / p.heads;
    for (size_t r = 0; r < s.affected.size(); ++r)
        for (long head = 0; head < p.heads; ++head)
            s.reach[s.affected[r] * p.heads + head] =
                look(p, s, s.affected[r], head, threshold, kept.attended + r * p.width + head * part);
}

KERNEL static void mark_columns(const Problem& p, Sequence& s, float threshold) {
    for (size_t r = 0; r < s.changed.size(); ++r) mark(p, s, s.changed[r], s.old_keys.data() + r * p.width, threshold);
}

// Pairs of columns that were looked at in this step: targets with their sources, and changed columns with all.
static long pairs_looked_at(const Problem& p, const Sequence& s) {
    long pairs = s.changed.size() * s.columns * p.heads;
    for (const long target : s.affected)
        for (long head = 0; head < p.heads; ++head)
            pairs += std::min(2 * s.reach[target * p.heads + head], s.columns);
    return pairs;
}

// What is left of the steps, for all columns of one sequence.
static void go_on_plainly(const Problem& p, const Sequence& s, long sequence, long step) {
    static thread_local std::vector<float> buffer;
    const long first_row = p.offsets[sequence];
    Problem rest = p;
    rest.states = s.states - first_row * p.width;
    rest.steps = p.steps - step;
    run_inference(rest, {sequence, first_row, s.columns, {0, s.columns}}, buffer);
    p.taken[sequence] += step;
}

static void gather(const float* from, const std::vector<long>& rows, long width, float* to) {
    for (size_t r = 0; r < rows.size(); ++r) std::memcpy(to + r * width, from + rows[r] * width, width * sizeof(float));
}

// All steps of one sequence, and how many it took. If too much happens for this to be quick, all columns are computed.
static void run_events(const Problem& p, long sequence, std::vector<float>& buffer) {
    const long first_row = p.offsets[sequence], columns = p.offsets[sequence + 1] - first_row;
    const long width = p.width, stride = projected_width(p);
    float* slab = room(buffer, columns * (Kept::size(p) + stride + 4 * width + 1));
    float* scratch = slab + columns * (width + stride);
    float *next = scratch + columns * Kept::size(p), *read = next + columns * width, *moving = read + columns * width;
    Sequence s{columns, slab, slab + columns * width, {}, std::vector<long>(columns * p.heads, columns), {}, {},
               std::vector<char>(columns, 0)};
    std::memcpy(s.states, p.states + first_row * width, columns * width * sizeof(float));
    for (long c = 0; c < columns; ++c) s.changed.push_back(c);
    // σ(threshold) is the greatest probability that the cut makes 0.
    const float threshold = std::log(p.match_stretch / (1 + p.match_stretch));
    long step = 0, pairs = 0;
    bool still = false;
    while (step < p.steps && !s.changed.empty() && !still) {
        {
            const long rows = s.changed.size();
            const Kept kept(p, scratch, rows);
            gather(s.states, s.changed, width, kept.states);
            project_rows(p, kept, rows);
            s.old_keys.resize(rows * width);
            for (long r = 0; r < rows; ++r) {
                float* at = s.projected + s.changed[r] * stride;
                if (step) std::memcpy(s.old_keys.data() + r * width, at + width, width * sizeof(float));
                std::memcpy(at, kept.projected + r * stride, stride * sizeof(float));
            }
        }
        std::fill(s.marked.begin(), s.marked.end(), step == 0);
        if (step) mark_columns(p, s, threshold);
        s.affected.clear();
        for (long c = 0; c < columns; ++c)
            if (s.marked[c]) s.affected.push_back(c);
        const long rows = s.affected.size();
        const Kept kept(p, scratch, rows);
        gather(s.states, s.affected, width, kept.states);
        read_columns(p, s, threshold, kept);
        if (step && step <= TRIAL) pairs += pairs_looked_at(p, s);
        update_rows(p, kept, rows, first_row, step, next, read, moving);
        s.changed.clear();
        still = p.tolerance > 0;
        for (long r = 0; r < rows; ++r) {
            float* state = s.states + s.affected[r] * width;
            float change = 0, size = 0;
            for (long j = 0; j < width; ++j) {
                const float moved = next[r * width + j] - state[j];
                change += moved * moved;
                size += state[j] * state[j];
            }
            if (!(change <= ROUNDING * ROUNDING * size)) {
                std::memcpy(state, next + r * width, width * sizeof(float));
                s.changed.push_back(s.affected[r]);
            }
            still = still && moving[r] <= 0;
        }
        ++step;
        const bool busy = PLAIN_SPEED * pairs > TRIAL * columns * columns * p.heads;
        // Columns wake up at steps counted from the first.
        if (step == TRIAL + 1 && busy && step < p.steps && !still && !s.changed.empty() && !p.wake)
            return go_on_plainly(p, s, sequence, step);
    }
    std::memcpy(p.output + first_row * width, s.states, columns * width * sizeof(float));
    p.taken[sequence] = step;
}
