// Draws the candidates of a split and keeps the distinct ones, on all cores.
//
// Candidate i depends only on (key, i), and candidates are kept in their order: the bytes of a split are the same for
// any number of threads. Every function here repeats, number for number, the Python function of the same name in
// stream.py, table_lookup.py, arithmetic.py and listops.py, which say what is drawn and why.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

namespace {

using Ids = std::vector<uint8_t>;
constexpr uint64_t GOLDEN = 0x9E3779B97F4A7C15ull;

uint64_t mix(uint64_t word) {
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9ull;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBull;
    return word ^ (word >> 31);
}

struct Stream {
    uint64_t state;
    Stream(uint64_t key, uint64_t index) : state(mix(key + GOLDEN * (index + 1))) {}
    uint64_t bits() { return mix(state += GOLDEN) >> 32; }
    int below(uint64_t count) { return static_cast<int>((bits() * count) >> 32); }
    bool chance(uint64_t threshold) { return bits() < threshold; }
};

// What is known of a candidate besides its tokens.
struct Result {
    int answer;
    int depth;
};

struct Waiting {
    int operation, count, height, base;
};

// What one thread works with, kept between candidates so that nothing is allocated for each.
struct Desk {
    std::vector<int> work, values, depths;
    std::vector<uint8_t> digits, signs;
    std::vector<Waiting> waiting;
    Ids wrapped;
};

struct Plan {
    virtual ~Plan() = default;
    // False when the candidate is rejected.
    virtual bool draw(Stream& stream, Desk& desk, Ids& ids, Result& result) const = 0;
};

// ---- table lookup -------------------------------------------------------------------------------------------------

struct LookupPlan : Plan {
    int depth, functions;
    bool backward;
    std::vector<uint64_t> reserved;
    std::vector<uint8_t> tables;

    explicit LookupPlan(const uint64_t* numbers)
        : depth(numbers[0]), functions(numbers[1]), backward(numbers[2]), reserved(numbers + 4, numbers + 4 + numbers[3]) {
        const uint64_t* flat = numbers + 4 + numbers[3];
        for (int one = 0; one < 8 * functions; ++one) tables.push_back(static_cast<uint8_t>(flat[one]));
    }

    bool draw(Stream& stream, Desk&, Ids& ids, Result& result) const override {
        do {
            ids.assign(1, 0);
            for (int place = 0; place < depth; ++place) ids.push_back(8 + stream.below(functions));
        } while (is_reserved(ids));
        ids[0] = stream.below(8);
        int value = ids[0];
        for (int place = 1; place <= depth; ++place) value = tables[8 * (ids[place] - 8) + value];
        if (backward) std::reverse(ids.begin(), ids.end());
        result = {value, depth};
        return true;
    }

    bool is_reserved(const Ids& ids) const {
        if (reserved.empty()) return false;
        uint64_t composition = 0;
        for (size_t place = 1; place < ids.size(); ++place) composition = composition * functions + ids[place] - 8;
        return std::binary_search(reserved.begin(), reserved.end(), composition);
    }
};

// ---- arithmetic ---------------------------------------------------------------------------------------------------

enum { OPEN = 0, SHUT = 1, TIMES = 2, PLUS = 3, ZERO = 4, AT_MOST = 100, EXACTLY = 101 };

bool grow(Stream& stream, Desk& desk, int root, size_t room, const uint64_t* leaf, const uint64_t* both,
          const uint64_t* left, Ids& ids) {
    std::vector<int>& work = desk.work;
    work.assign(1, root);
    while (!work.empty()) {
        const int item = work.back();
        work.pop_back();
        if (item < AT_MOST) {
            ids.push_back(item);
            continue;
        }
        if (ids.size() + work.size() >= room) return false;
        const int height = (item - AT_MOST) / 2;
        const bool exactly = (item - AT_MOST) % 2;
        if (height == 0 || (!exactly && stream.chance(leaf[height]))) {
            ids.push_back(ZERO + stream.below(10));
            continue;
        }
        int first = AT_MOST + 2 * (height - 1), second = first;
        if (exactly) {
            const uint64_t choice = stream.bits();
            const int deep = EXACTLY + 2 * (height - 1), shallow = AT_MOST + 2 * (height - 2);
            first = choice < left[height] ? deep : shallow;
            second = choice < both[height] || choice >= left[height] ? deep : shallow;
        }
        ids.push_back(OPEN);
        work.push_back(SHUT);
        work.push_back(second);
        work.push_back(TIMES + stream.below(2));
        work.push_back(first);
    }
    return true;
}

int height_of(const Ids& ids) {
    int level = 0, deepest = 0;
    for (uint8_t token : ids) {
        level += (token == OPEN) - (token == SHUT);
        deepest = std::max(deepest, level);
    }
    return deepest;
}

int value_of(Desk& desk, const Ids& ids) {
    std::vector<uint8_t>&values = desk.digits, &signs = desk.signs;
    values.clear();
    signs.clear();
    for (uint8_t token : ids) {
        if (token >= ZERO) {
            values.push_back(token - ZERO);
        } else if (token == SHUT) {
            const int right = values.back();
            values.pop_back();
            const int left = values.back();
            values.back() = (signs.back() == PLUS ? left + right : left * right) % 10;
            signs.pop_back();
        } else if (token != OPEN) {
            signs.push_back(token);
        }
    }
    return values.back();
}

struct TreePlan : Plan {
    int depth, high;
    std::vector<uint64_t> numbers;
    const uint64_t *both, *left, *leaf, *keep;

    explicit TreePlan(const uint64_t* given)
        : depth(given[0]), high(given[1]), numbers(given + 2, given + 2 + 3 * (depth + 1) + high + 1) {
        both = numbers.data();
        left = both + depth + 1;
        leaf = left + depth + 1;
        keep = leaf + depth + 1;
    }

    bool draw(Stream& stream, Desk& desk, Ids& ids, Result& result) const override {
        while (true) {
            ids.clear();
            if (grow(stream, desk, EXACTLY + 2 * depth, high, leaf, both, left, ids) && stream.chance(keep[ids.size()])) break;
        }
        result = {value_of(desk, ids), depth};
        return true;
    }
};

struct SharedPlan : Plan {
    int depth;
    std::vector<uint64_t> lengths;

    explicit SharedPlan(const uint64_t* numbers) : depth(numbers[0]), lengths(numbers + 2, numbers + 2 + numbers[1]) {}

    bool draw(Stream& stream, Desk& desk, Ids& ids, Result& result) const override {
        // A token has no digits to share.
        struct Item {
            int digits, height, exactly;
        };
        std::vector<Item> work;
        ids.clear();
        const int length = static_cast<int>(lengths[stream.below(lengths.size())]);
        work.push_back({(length + 3) / 4, depth, 1});
        while (!work.empty()) {
            const Item item = work.back();
            work.pop_back();
            if (item.digits == 0) {
                ids.push_back(item.height);
                continue;
            }
            if (item.digits == 1) {
                ids.push_back(ZERO + stream.below(10));
                continue;
            }
            const int most = 1 << std::min(item.height - 1, 20);
            const bool deep_left = stream.below(2);
            const int fewest = std::max(item.exactly ? item.height : 1, item.digits - most);
            const int one = fewest + stream.below(std::min(most, item.digits - 1) - fewest + 1);
            const Item deep{one, item.height - 1, item.exactly}, other{item.digits - one, item.height - 1, 0};
            ids.push_back(OPEN);
            work.push_back({0, SHUT, 0});
            work.push_back(deep_left ? other : deep);
            work.push_back({0, TIMES + stream.below(2), 0});
            work.push_back(deep_left ? deep : other);
        }
        result = {value_of(desk, ids), depth};
        return true;
    }
};

struct WrappedPlan : Plan {
    int low, high;
    size_t max_length;
    std::vector<uint64_t> leaf;

    explicit WrappedPlan(const uint64_t* numbers)
        : low(numbers[0]), high(numbers[1]), max_length(numbers[2]), leaf(high + 1, numbers[3]) {}

    bool draw(Stream& stream, Desk& desk, Ids& ids, Result& result) const override {
        ids.clear();
        if (!grow(stream, desk, AT_MOST + 2 * high, max_length, leaf.data(), nullptr, nullptr, ids)) return false;
        Ids& wrapped = desk.wrapped;
        while (height_of(ids) < low) {
            wrapped.clear();
            if (!grow(stream, desk, AT_MOST + 2 * (high - 1), max_length, leaf.data(), nullptr, nullptr, wrapped)) return false;
            wrapped.insert(wrapped.begin(), OPEN);
            wrapped.push_back(TIMES + stream.below(2));
            wrapped.insert(wrapped.end(), ids.begin(), ids.end());
            wrapped.push_back(SHUT);
            ids.swap(wrapped);
        }
        if (ids.size() > max_length || height_of(ids) > high) return false;
        result = {value_of(desk, ids), height_of(ids)};
        return true;
    }
};

// ---- ListOps ------------------------------------------------------------------------------------------------------

enum { MAX = 0, MED = 1, MIN = 2, SM = 3, CLOSE = 14, MOST_ARGUMENTS = 100, MOST_TRIES = 100000 };

// The value of an operation; the places of the arguments that it needs go to `needed`, their number to `count_needed`.
int apply(int operation, const int* values, int count, int* needed, int& count_needed) {
    if (operation == SM) {
        int sum = 0;
        for (int place = 0; place < count; ++place) {
            sum += values[place];
            needed[place] = place;
        }
        count_needed = count;
        return sum % 10;
    }
    if (operation == MED) {
        int order[MOST_ARGUMENTS];
        for (int place = 0; place < count; ++place) {
            int spot = place;
            for (; spot > 0 && values[order[spot - 1]] > values[place]; --spot) order[spot] = order[spot - 1];
            order[spot] = place;
        }
        needed[0] = order[(count - 1) / 2];
        needed[1] = order[count / 2];
        count_needed = 2 - count % 2;
        return count % 2 ? values[needed[0]] : (values[needed[0]] + values[needed[1]]) / 2;
    }
    int best = 0;
    for (int place = 1; place < count; ++place)
        if (operation == MAX ? values[place] > values[best] : values[place] < values[best]) best = place;
    needed[0] = best;
    count_needed = 1;
    return values[best];
}

struct Tree {
    int value, depth, cost;
};

struct Branching {
    int fewest, heights, kinds;
    std::vector<uint64_t> leaf, counts;

    explicit Branching(const uint64_t* numbers) : fewest(numbers[0]), heights(numbers[1]), kinds(numbers[2]) {
        leaf.assign(numbers + 3, numbers + 3 + heights);
        counts.assign(numbers + 3 + heights, numbers + 3 + heights + heights * kinds);
    }
    int most() const { return fewest + kinds - 1; }
    int size() const { return 3 + heights + heights * kinds; }
};

int choose(Stream& stream, const uint64_t* cumulative) {
    const uint64_t bits = stream.bits();
    int place = 0;
    while (bits >= cumulative[place]) ++place;
    return place;
}

// Appends one free tree to `ids`.
bool branch(Stream& stream, Desk& desk, const Branching& law, int height, int room, int per_operation, Ids& ids, Tree& tree) {
    int cost = 1;
    if (cost > room) return false;
    if (!height || stream.chance(law.leaf[height])) {
        tree = {stream.below(10), 0, cost};
        ids.push_back(tree.value);
        return true;
    }
    // No more than these can be open or waiting at a time.
    desk.waiting.resize(law.heights + 1);
    desk.values.resize((law.heights + 1) * law.most());
    desk.depths.resize(desk.values.size());
    Waiting* waiting = desk.waiting.data();
    int *values = desk.values.data(), *depths = desk.depths.data();
    int opened = 0, filled = 0, needed[MOST_ARGUMENTS], count_needed;
    bool ends = false;
    while (true) {
        if (!ends) {
            const int operation = stream.below(4);
            const int count = law.fewest + choose(stream, &law.counts[height * law.kinds]);
            cost += per_operation + count - 1;
            if (cost > room) return false;
            ids.push_back(10 + operation);
            --height;
            waiting[opened++] = {operation, count, height, filled};
        } else {
            int value = stream.below(10), depth = 0;
            ids.push_back(value);
            while (true) {
                if (!opened) {
                    tree = {value, depth, cost};
                    return true;
                }
                const Waiting& open = waiting[opened - 1];
                values[filled] = value;
                depths[filled++] = depth;
                height = open.height;
                if (filled - open.base < open.count) break;
                value = apply(open.operation, values + open.base, open.count, needed, count_needed);
                depth = 0;
                for (int one = 0; one < count_needed; ++one) depth = std::max(depth, depths[open.base + needed[one]]);
                ++depth;
                filled = open.base;
                --opened;
                ids.push_back(CLOSE);
            }
        }
        ends = !height || stream.chance(law.leaf[height]);
    }
}

bool reachable(int tokens, int levels, int fewest, int most) {
    if (levels == 0) return tokens == 0;
    const int operations = std::max((tokens + most) / (most + 1), levels);
    return operations * (fewest + 1) <= tokens;
}

struct SpinePlan : Plan {
    enum Try { WRAPPED, NOT_NEEDED, TOO_LONG };
    int depth, first_height, last_height, high;
    Branching law;
    std::vector<uint64_t> counts, keep, lengths;

    explicit SpinePlan(const uint64_t* numbers)
        : depth(numbers[0]), first_height(numbers[1]), last_height(numbers[2]), high(numbers[3]), law(numbers + 4) {
        const uint64_t* rest = numbers + 4 + law.size();
        counts.assign(rest, rest + law.heights * law.kinds);
        rest += law.heights * law.kinds;
        keep.assign(rest + 1, rest + 1 + rest[0]);
        rest += 1 + rest[0];
        lengths.assign(rest + 1, rest + 1 + rest[0]);
    }

    bool draw(Stream& stream, Desk& desk, Ids& ids, Result& result) const override {
        int value;
        while (true) {
            if (lengths.empty()) {
                if (build(stream, desk, ids, value, 0) && stream.chance(keep[ids.size()])) break;
            } else if (build(stream, desk, ids, value, static_cast<int>(lengths[stream.below(lengths.size())]))) {
                break;
            }
        }
        result = {value, depth};
        return true;
    }

    bool build(Stream& stream, Desk& desk, Ids& ids, int& value, int length) const {
        value = stream.below(10);
        ids.assign(1, value);
        const int share = (length - 1) / depth;
        for (int level = 1; level <= depth; ++level) {
            const int levels = depth - level;
            int least = 0, most = high - levels * (law.fewest + 1);
            if (length) {
                const int part = 1 + (length - 1) * level / depth, slack = levels ? share / 2 : 0;
                least = part - slack;
                most = part + slack;
            }
            int tries = 0;
            for (; tries < MOST_TRIES; ++tries) {
                int wrapped_value;
                const Try outcome =
                    wrap(stream, desk, ids, value, level, most - static_cast<int>(ids.size()) - 2, wrapped_value);
                if (outcome == TOO_LONG && !length) return false;
                if (outcome != WRAPPED) continue;
                const int size = static_cast<int>(desk.wrapped.size());
                if (size < least || (length && !reachable(length - size, levels, law.fewest, law.most()))) continue;
                ids.swap(desk.wrapped);
                value = wrapped_value;
                break;
            }
            if (tries == MOST_TRIES) return false;
        }
        return true;
    }

    Try wrap(Stream& stream, Desk& desk, const Ids& ids, int value, int level, int room, int& result) const {
        Ids& wrapped = desk.wrapped;
        int values[MOST_ARGUMENTS], depths[MOST_ARGUMENTS], needed[MOST_ARGUMENTS], count_needed;
        const int operation = stream.below(4);
        const int below = std::min(first_height + level - 1, last_height);
        const int count = law.fewest + choose(stream, &counts[below * law.kinds]);
        const int place = stream.below(count);
        wrapped.assign(1, 10 + operation);
        room -= count - 1;
        for (int argument = 0; argument < count; ++argument) {
            if (argument == place) {
                wrapped.insert(wrapped.end(), ids.begin(), ids.end());
                values[argument] = value;
                depths[argument] = level - 1;
                continue;
            }
            Tree free;
            if (!branch(stream, desk, law, below, room + 1, 2, wrapped, free)) return TOO_LONG;
            room -= free.cost - 1;
            values[argument] = free.value;
            depths[argument] = free.depth;
        }
        result = apply(operation, values, count, needed, count_needed);
        bool is_needed = false, too_deep = false;
        int deepest = 0;
        for (int one = 0; one < count_needed; ++one) {
            is_needed |= needed[one] == place;
            too_deep |= depths[needed[one]] >= level;
            deepest += depths[needed[one]] == level - 1;
        }
        if (!is_needed || too_deep) return NOT_NEEDED;
        if (deepest > 1 && stream.below(deepest) != 0) return NOT_NEEDED;
        wrapped.push_back(CLOSE);
        return WRAPPED;
    }
};

// `height_of` in listops.py.
int nesting_of(const Ids& ids) {
    int level = 0, highest = 0;
    for (uint8_t token : ids) {
        level += (token >= 10 && token < CLOSE) - (token == CLOSE);
        highest = std::max(highest, level);
    }
    return highest;
}

struct PaperPlan : Plan {
    int low, high, max_length;
    Branching law;

    explicit PaperPlan(const uint64_t* numbers) : low(numbers[0]), high(numbers[1]), max_length(numbers[2]), law(numbers + 3) {}

    bool draw(Stream& stream, Desk& desk, Ids& ids, Result& result) const override {
        Ids& wrapped = desk.wrapped;
        int values[8], depths[8], needed[8], count_needed;
        Tree tree;
        ids.clear();
        if (!branch(stream, desk, law, high, max_length, 3, ids, tree)) return false;
        for (int nesting; (nesting = nesting_of(ids)) < low;) {
            if (tree.cost + 5 * (low - nesting) > max_length) return false;
            const int operation = stream.below(4);
            const int count = 2 + stream.below(3);
            const int place = stream.below(count);
            int cost = tree.cost + 3 + count, argument = 0;
            wrapped.assign(1, 10 + operation);
            for (int drawn = 0; drawn < count; ++drawn) {
                if (drawn == place) {
                    wrapped.insert(wrapped.end(), ids.begin(), ids.end());
                    values[argument] = tree.value;
                    depths[argument++] = tree.depth;
                }
                Tree free;
                if (!branch(stream, desk, law, high - 1, max_length - cost + 1, 3, wrapped, free)) return false;
                cost += free.cost - 1;
                values[argument] = free.value;
                depths[argument++] = free.depth;
            }
            wrapped.push_back(CLOSE);
            ids.swap(wrapped);
            const int value = apply(operation, values, count + 1, needed, count_needed);
            int deepest = 0;
            for (int one = 0; one < count_needed; ++one) deepest = std::max(deepest, depths[needed[one]]);
            tree = {value, 1 + deepest, cost};
        }
        result = {tree.value, tree.depth};
        return true;
    }
};

// ---- keeping distinct candidates ------------------------------------------------------------------------------------

uint64_t hash_of(const uint8_t* ids, size_t length) {
    uint64_t word = 0xCBF29CE484222325ull;
    for (size_t place = 0; place < length; ++place) word = (word ^ ids[place]) * 0x100000001B3ull;
    return mix(word);
}

// Samples one after another, and a table of where they are by their hash.
struct Samples {
    Ids flat;
    std::vector<uint64_t> starts{0};
    std::vector<uint32_t> slots = std::vector<uint32_t>(1024, 0);

    size_t size() const { return starts.size() - 1; }

    // False if it is there already.
    bool add(const uint8_t* ids, size_t length, uint64_t hash) {
        size_t spot = hash & (slots.size() - 1);
        for (; slots[spot]; spot = (spot + 1) & (slots.size() - 1)) {
            const uint64_t start = starts[slots[spot] - 1];
            if (starts[slots[spot]] - start == length && !std::memcmp(&flat[start], ids, length)) return false;
        }
        flat.insert(flat.end(), ids, ids + length);
        starts.push_back(flat.size());
        slots[spot] = static_cast<uint32_t>(size());
        if (2 * size() > slots.size()) widen();
        return true;
    }

    void widen() {
        std::vector<uint32_t> wider(2 * slots.size(), 0);
        for (size_t one = 0; one < size(); ++one) {
            size_t spot = hash_of(&flat[starts[one]], starts[one + 1] - starts[one]) & (wider.size() - 1);
            while (wider[spot]) spot = (spot + 1) & (wider.size() - 1);
            wider[spot] = static_cast<uint32_t>(one + 1);
        }
        slots.swap(wider);
    }
};

// The accepted candidates of a few neighbouring numbers.
struct Block {
    struct Entry {
        uint32_t number, length;
        Result result;
        uint64_t hash;
    };
    Ids flat;
    std::vector<Entry> entries;
};

struct Fill {
    std::unique_ptr<Plan> plan;
    uint64_t key;
    int depth_low, side;
    std::vector<int64_t> missing;
    int64_t patience, wanted = 0, next = 0, last_kept = -1;
    Samples samples;
    size_t excluded = 0;
    std::vector<uint8_t> answers;
    std::vector<uint16_t> depths;

    // Draws one wave of candidates on all cores; the number kept, or -1 when nothing new seems to be left.
    int64_t more() {
        constexpr int64_t BLOCK = 16;
        const int64_t kept_before = static_cast<int64_t>(answers.size());
        const double per_sample = kept_before ? static_cast<double>(next) / kept_before : 1.0;
        const double guess = 1.1 * per_sample * static_cast<double>(wanted);
        const int64_t count = static_cast<int64_t>(std::min(262144.0, guess + 2 * BLOCK)) / BLOCK * BLOCK;
        std::vector<Block> blocks(count / BLOCK);
#pragma omp parallel
        {
            Desk desk;
#pragma omp for schedule(dynamic)
            for (int64_t number = 0; number < count / BLOCK; ++number)
                draw_block(desk, blocks[number], next + number * BLOCK, BLOCK);
        }
        for (size_t number = 0; number < blocks.size() && wanted; ++number) {
            const uint8_t* ids = blocks[number].flat.data();
            for (const Block::Entry& entry : blocks[number].entries) {
                const int64_t index = next + static_cast<int64_t>(number) * BLOCK + entry.number;
                if (!wanted || index - last_kept > patience) break;
                if (offer(ids, entry)) last_kept = index;
                ids += entry.length;
            }
        }
        next += count;
        if (wanted && next - last_kept > patience) return -1;
        return static_cast<int64_t>(answers.size()) - kept_before;
    }

    void draw_block(Desk& desk, Block& block, int64_t first, int64_t count) const {
        Ids ids;
        Result result;
        for (int64_t number = 0; number < count; ++number) {
            Stream stream(key, static_cast<uint64_t>(first + number));
            if (!plan->draw(stream, desk, ids, result)) continue;
            const int64_t place = result.depth - depth_low;
            if (place < 0 || place >= static_cast<int64_t>(missing.size()) || !missing[place]) continue;
            const uint64_t hash = hash_of(ids.data(), ids.size());
            if (side && (hash >> 61 == 0) != (side == 2)) continue;
            block.flat.insert(block.flat.end(), ids.begin(), ids.end());
            block.entries.push_back({static_cast<uint32_t>(number), static_cast<uint32_t>(ids.size()), result, hash});
        }
    }

    bool offer(const uint8_t* ids, const Block::Entry& entry) {
        int64_t& left = missing[entry.result.depth - depth_low];
        if (!left || !samples.add(ids, entry.length, entry.hash)) return false;
        answers.push_back(static_cast<uint8_t>(entry.result.answer));
        depths.push_back(static_cast<uint16_t>(entry.result.depth));
        --left;
        --wanted;
        return true;
    }
};

std::unique_ptr<Plan> plan_of(int kind, const uint64_t* numbers) {
    switch (kind) {
        case 0: return std::make_unique<LookupPlan>(numbers);
        case 1: return std::make_unique<TreePlan>(numbers);
        case 2: return std::make_unique<WrappedPlan>(numbers);
        case 3: return std::make_unique<SpinePlan>(numbers);
        case 4: return std::make_unique<PaperPlan>(numbers);
        case 5: return std::make_unique<SharedPlan>(numbers);
        default: return nullptr;
    }
}

}  // namespace

extern "C" {

// side: 0 any, 1 train, 2 held-out. `excluded` are token ids of samples that must not be kept, one after another.
void* ndr_fill_open(int kind, const uint64_t* numbers, uint64_t key, int depth_low, int depths, const int64_t* missing,
                    int side, int64_t patience, const uint8_t* excluded, const uint32_t* excluded_lengths, int64_t count) {
    auto fill = std::make_unique<Fill>();
    fill->plan = plan_of(kind, numbers);
    if (!fill->plan) return nullptr;
    fill->key = key;
    fill->depth_low = depth_low;
    fill->side = side;
    fill->patience = patience;
    fill->missing.assign(missing, missing + depths);
    for (int64_t one : fill->missing) fill->wanted += one;
    for (int64_t one = 0; one < count; ++one) {
        fill->samples.add(excluded, excluded_lengths[one], hash_of(excluded, excluded_lengths[one]));
        excluded += excluded_lengths[one];
    }
    fill->excluded = fill->samples.size();
    return fill.release();
}

int64_t ndr_fill_more(void* handle) { return static_cast<Fill*>(handle)->more(); }

void ndr_fill_missing(void* handle, int64_t* missing) {
    const Fill* fill = static_cast<Fill*>(handle);
    std::copy(fill->missing.begin(), fill->missing.end(), missing);
}

// Samples, and tokens of all samples.
void ndr_fill_size(void* handle, int64_t* sizes) {
    const Fill* fill = static_cast<Fill*>(handle);
    sizes[0] = static_cast<int64_t>(fill->answers.size());
    sizes[1] = static_cast<int64_t>(fill->samples.flat.size() - fill->samples.starts[fill->excluded]);
}

void ndr_fill_copy(void* handle, uint8_t* tokens, uint32_t* lengths, uint8_t* answers, uint16_t* depths) {
    const Fill* fill = static_cast<Fill*>(handle);
    const Samples& samples = fill->samples;
    std::copy(samples.flat.begin() + samples.starts[fill->excluded], samples.flat.end(), tokens);
    for (size_t one = fill->excluded; one < samples.size(); ++one)
        *lengths++ = static_cast<uint32_t>(samples.starts[one + 1] - samples.starts[one]);
    std::copy(fill->answers.begin(), fill->answers.end(), answers);
    std::copy(fill->depths.begin(), fill->depths.end(), depths);
}

void ndr_fill_close(void* handle) { delete static_cast<Fill*>(handle); }
}
