#include "coverage.hpp"

#include <algorithm>
#include <utility>

namespace ttmem {

namespace {

constexpr std::uint64_t ALL = UINT64_MAX;  // the tree covers the addresses from 0 to here

template <typename T>
void make_room(T* items, std::uint32_t place, std::uint32_t count) {
    std::copy_backward(items + place, items + count, items + count + 1);
}

// The last child that begins at or before the address.
std::uint32_t child_at(const std::uint64_t* first, std::uint32_t count, std::uint64_t at) {
    return static_cast<std::uint32_t>(std::upper_bound(first + 1, first + count, at) - first) - 1;
}

}  // namespace

void Coverage::add(std::uint64_t start, std::uint64_t end) {
    if (start >= end) {
        return;
    }
    const std::uint64_t known = run_.second - run_.first;
    const bool nothing_else = known == covered_;
    const bool touches = known && start <= run_.second && end >= run_.first;
    const Range wider = touches ? Range{std::min(start, run_.first), std::max(end, run_.second)} : Range{start, end};
    if (touches && (nothing_else || wider == run_)) {
        waiting_.emplace_back(start, end);
        run_ = wider;
        covered_ = nothing_else ? run_.second - run_.first : covered_;
        if (waiting_.size() == MAX_WAITING) {
            settle();
        }
        return;
    }
    settle();
    shift(start, +1);
    shift(end, -1);
    if (wider.second - wider.first > known) {
        run_ = wider;
    }
    measure();
}

void Coverage::remove(std::uint64_t start, std::uint64_t end) {
    if (start >= end) {
        return;
    }
    settle();
    shift(start, -1);
    shift(end, +1);
    close_up();
    const std::uint64_t before = covered_;
    measure();
    if (covered_ == before || start >= run_.second || end <= run_.first) {
        return;
    }
    // Only what was removed can have become uncovered: the part of the run before it, or else the part after it
    // remains.
    const std::uint64_t from = start > run_.first ? run_.first : end;
    run_ = from < run_.second ? Range{from, first_uncovered(levels_, root_, 0, ALL, 0, from)} : Range{0, 0};
}

void Coverage::settle() {
    for (; !waiting_.empty(); waiting_.pop_back()) {
        shift(waiting_.back().first, +1);
        shift(waiting_.back().second, -1);
    }
}

std::vector<Coverage::Range> Coverage::regions() const {
    std::vector<Range> out;
    std::int32_t depth = 0;
    const auto visit = [&](std::uint64_t at, std::int32_t delta) {
        const std::int32_t before = depth;
        depth += delta;
        if (before == 0) {
            out.emplace_back(at, at);
        } else if (depth == 0) {
            out.back().second = at;
        }
    };
    if (steps_) {
        each_step(levels_, root_, visit);
    }
    if (waiting_.empty()) {
        return out;
    }
    out.insert(out.end(), waiting_.begin(), waiting_.end());
    std::sort(out.begin(), out.end());
    std::size_t last = 0;
    for (const Range& next : out) {
        if (next.first <= out[last].second) {
            out[last].second = std::max(out[last].second, next.second);
        } else {
            out[++last] = next;
        }
    }
    out.resize(last + 1);
    return out;
}

void Coverage::expect(const Range& run, std::vector<Range> waiting) {
    run_ = run;
    waiting_ = std::move(waiting);
    expected_ = (std::uint64_t{1} << waiting_.size()) - 1;
}

void Coverage::put(std::uint64_t start, std::uint64_t end) {
    if (start >= end) {
        return;
    }
    for (std::size_t i = 0; expected_ >> i; ++i) {
        if (expected_ >> i & 1 && waiting_[i] == Range{start, end}) {
            expected_ &= ~(std::uint64_t{1} << i);
            return;
        }
    }
    shift(start, +1);
    shift(end, -1);
}

bool Coverage::finish() {
    const std::vector<Range> all = regions();
    covered_ = 0;
    bool run_covered = run_ == Range{0, 0};
    for (const Range& each : all) {
        covered_ += each.second - each.first;
        run_covered |= run_.first < run_.second && each.first <= run_.first && run_.second <= each.second;
    }
    const auto inside = [&](const Range& each) {
        return each.first < each.second && run_.first <= each.first && each.second <= run_.second;
    };
    return expected_ == 0 && run_covered && std::all_of(waiting_.begin(), waiting_.end(), inside);
}

template <typename Visit>
void Coverage::each_step(std::uint32_t level, std::uint32_t node, Visit& visit) const {
    if (level == 0) {
        for (std::uint32_t i = 0; i < leaves_[node].count; ++i) {
            visit(leaves_[node].at[i], leaves_[node].delta[i]);
        }
        return;
    }
    for (std::uint32_t i = 0; i < inners_[node].count; ++i) {
        each_step(level - 1, inners_[node].child[i], visit);
    }
}

// Full nodes are split on the way down, so a parent always has space for another child.
void Coverage::shift(std::uint64_t at, std::int32_t by) {
    if (leaves_.empty()) {
        leaves_.emplace_back();
    } else if (full(levels_, root_)) {
        Inner above;
        above.count = 1;
        above.first[0] = 0;
        above.child[0] = root_;
        inners_.push_back(above);
        root_ = static_cast<std::uint32_t>(inners_.size() - 1);
        ++levels_;
    }
    std::uint32_t node = root_;
    for (std::uint32_t level = levels_; level > 0; --level) {
        std::uint32_t place = child_at(inners_[node].first, inners_[node].count, at);
        if (full(level - 1, inners_[node].child[place])) {
            split_child(level, node, place);
            place += at >= inners_[node].first[place + 1];
        }
        inners_[node].stale |= 1u << place;
        node = inners_[node].child[place];
    }
    Leaf& leaf = leaves_[node];
    const auto place = static_cast<std::uint32_t>(std::lower_bound(leaf.at, leaf.at + leaf.count, at) - leaf.at);
    if (place == leaf.count || leaf.at[place] != at) {
        make_room(leaf.at, place, leaf.count);
        make_room(leaf.delta, place, leaf.count);
        leaf.at[place] = at;
        leaf.delta[place] = by;
        ++leaf.count;
        ++steps_;
    } else if ((leaf.delta[place] += by) == 0) {
        std::copy(leaf.at + place + 1, leaf.at + leaf.count, leaf.at + place);
        std::copy(leaf.delta + place + 1, leaf.delta + leaf.count, leaf.delta + place);
        --leaf.count;
        --steps_;
    }
}

void Coverage::split_child(std::uint32_t level, std::uint32_t inner, std::uint32_t place) {
    constexpr std::uint32_t half = FAN / 2;
    const std::uint32_t lower = inners_[inner].child[place];
    std::uint64_t first;
    std::uint32_t upper;
    if (level == 1) {
        upper = static_cast<std::uint32_t>(leaves_.size());
        leaves_.emplace_back();
        Leaf &from = leaves_[lower], &to = leaves_[upper];
        std::copy(from.at + half, from.at + FAN, to.at);
        std::copy(from.delta + half, from.delta + FAN, to.delta);
        from.count = to.count = half;
        first = to.at[0];
    } else {
        upper = static_cast<std::uint32_t>(inners_.size());
        inners_.emplace_back();
        Inner &from = inners_[lower], &to = inners_[upper];
        std::copy(from.child + half, from.child + FAN, to.child);
        std::copy(from.first + half, from.first + FAN, to.first);
        std::copy(from.sum + half, from.sum + FAN, to.sum);
        from.count = to.count = half;
        to.stale = from.stale >> half;
        from.stale &= (1u << half) - 1;
        first = to.first[0];
    }
    Inner& parent = inners_[inner];
    make_room(parent.child, place + 1, parent.count);
    make_room(parent.first, place + 1, parent.count);
    make_room(parent.sum, place + 1, parent.count);
    parent.child[place + 1] = upper;
    parent.first[place + 1] = first;
    ++parent.count;
    const std::uint32_t below = parent.stale & ((1u << place) - 1);
    const std::uint64_t above = std::uint64_t{parent.stale >> place >> 1} << (place + 2);
    parent.stale = below | static_cast<std::uint32_t>(above) | 3u << place;
}

// Removed steps leave gaps. When three quarters of a leaf are empty, the rest is compacted: by then at least as many
// steps were removed as are moved now.
void Coverage::close_up() {
    if (steps_ == 0) {
        leaves_ = {};
        inners_ = {};
        root_ = levels_ = 0;
    } else if (leaves_.size() > 8 && steps_ * 4 < leaves_.size() * FAN) {
        Coverage closed;
        const auto visit = [&](std::uint64_t at, std::int32_t delta) { closed.shift(at, delta); };
        each_step(levels_, root_, visit);
        leaves_.swap(closed.leaves_);
        inners_.swap(closed.inners_);
        root_ = closed.root_;
        levels_ = closed.levels_;
    }
}

void Coverage::measure() { covered_ = steps_ ? ALL - sum_of(levels_, root_, 0, ALL).lowest_bytes : 0; }

// A part without bytes may count as the lowest. It is no lower than its neighbours, and adds no bytes.
Coverage::Sum Coverage::sum_of(std::uint32_t level, std::uint32_t node, std::uint64_t from, std::uint64_t to) {
    Sum out{0, 0, 0};
    const auto take = [&out](std::int32_t depth, std::uint64_t bytes) {
        if (depth < out.lowest) {
            out.lowest = depth;
            out.lowest_bytes = bytes;
        } else if (depth == out.lowest) {
            out.lowest_bytes += bytes;
        }
    };
    if (level == 0) {
        const Leaf& leaf = leaves_[node];
        for (std::uint32_t i = 0; i < leaf.count; ++i) {
            take(out.total, leaf.at[i] - from);
            from = leaf.at[i];
            out.total += leaf.delta[i];
        }
        take(out.total, to - from);
        return out;
    }
    Inner& inner = inners_[node];
    for (std::uint32_t i = 0; i < inner.count; ++i) {
        if (inner.stale >> i & 1) {
            const std::uint64_t end = i + 1 < inner.count ? inner.first[i + 1] : to;
            inner.sum[i] = sum_of(level - 1, inner.child[i], inner.first[i], end);
        }
        take(out.total + inner.sum[i].lowest, inner.sum[i].lowest_bytes);
        out.total += inner.sum[i].total;
    }
    inner.stale = 0;
    return out;
}

// After `after`, which is covered; `to` if there is none. The sums are up to date.
std::uint64_t Coverage::first_uncovered(std::uint32_t level, std::uint32_t node, std::uint64_t from, std::uint64_t to,
                                        std::int32_t depth, std::uint64_t after) const {
    if (level == 0) {
        const Leaf& leaf = leaves_[node];
        for (std::uint32_t i = 0; i < leaf.count && !(depth == 0 && leaf.at[i] > from && from > after); ++i) {
            from = leaf.at[i];
            depth += leaf.delta[i];
        }
        return depth == 0 && from > after ? from : to;
    }
    const Inner& inner = inners_[node];
    for (std::uint32_t i = 0; i < inner.count; ++i) {
        const std::uint64_t end = i + 1 < inner.count ? inner.first[i + 1] : to;
        const Sum& sum = inner.sum[i];
        if (end > after && depth + sum.lowest == 0 && sum.lowest_bytes) {
            const std::uint64_t found =
                first_uncovered(level - 1, inner.child[i], inner.first[i], end, depth, after);
            if (found < end) {
                return found;
            }
        }
        depth += sum.total;
    }
    return to;
}

bool CoreMask::empty() const {
    return std::all_of(words.begin(), words.end(), [](std::uint64_t word) { return word == 0; });
}

int CoreMask::count() const {
    int bits = 0;
    for (const std::uint64_t word : words) {
        bits += __builtin_popcountll(word);
    }
    return bits;
}

CoreMask CoreMask::operator&(const CoreMask& other) const {
    CoreMask out;
    for (int i = 0; i < WORDS; ++i) {
        out.words[i] = words[i] & other.words[i];
    }
    return out;
}

CoreMask CoreMask::operator|(const CoreMask& other) const {
    CoreMask out;
    for (int i = 0; i < WORDS; ++i) {
        out.words[i] = words[i] | other.words[i];
    }
    return out;
}

CoreMask CoreMask::without(const CoreMask& other) const {
    CoreMask out;
    for (int i = 0; i < WORDS; ++i) {
        out.words[i] = words[i] & ~other.words[i];
    }
    return out;
}

template <typename Change>
void GridCoverage::each(const CoreMask& cores, bool create, Change change) {
    CoreMask rest = cores;
    const auto apply = [&](Class& part) {
        const std::uint64_t before = part.coverage.covered(), shared_before = watched_ ? shared_in(part) : 0;
        const std::size_t steps_before = part.coverage.steps();
        change(part.coverage);
        if (watched_) {
            change(part.joint);
            shared_ += shared_in(part) - shared_before;
        }
        total_ += static_cast<std::uint64_t>(part.cores.count()) * (part.coverage.covered() - before);
        steps_ += part.coverage.steps() - steps_before;
    };
    const std::size_t known = classes_.size();
    for (std::size_t i = 0; i < known && !rest.empty(); ++i) {
        const CoreMask shared = classes_[i].cores & rest;
        if (shared.empty()) {
            continue;
        }
        rest = rest.without(shared);
        if (shared == classes_[i].cores) {
            apply(classes_[i]);
        } else {
            classes_[i].cores = classes_[i].cores.without(shared);
            classes_.push_back(Class{shared, classes_[i].coverage, classes_[i].joint});
            steps_ += classes_.back().coverage.steps();
            apply(classes_.back());
        }
    }
    if (create && !rest.empty()) {
        classes_.push_back(Class{rest, Coverage{}, everywhere_});
        apply(classes_.back());
    }
}

void GridCoverage::add(const CoreMask& cores, std::uint64_t start, std::uint64_t end) {
    each(cores, true, [=](Coverage& coverage) { coverage.add(start, end); });
}

void GridCoverage::remove(const CoreMask& cores, std::uint64_t start, std::uint64_t end) {
    each(cores, false, [=](Coverage& coverage) { coverage.remove(start, end); });
    classes_.erase(
        std::remove_if(classes_.begin(), classes_.end(), [](const Class& part) { return part.coverage.steps() == 0; }),
        classes_.end());
}

bool GridCoverage::expect(const CoreMask& cores, Coverage coverage) {
    for (const Class& other : classes_) {
        if (!(other.cores & cores).empty()) {
            return false;
        }
    }
    steps_ += coverage.steps();
    classes_.push_back(Class{cores, std::move(coverage), Coverage{}});
    return !cores.empty();
}

bool GridCoverage::put(const CoreMask& cores, std::uint64_t start, std::uint64_t end) {
    CoreMask rest = start < end ? cores : CoreMask{};
    for (Class& part : classes_) {
        if (rest.empty()) {
            break;
        }
        const CoreMask shared = part.cores & rest;
        if (shared.empty()) {
            continue;
        }
        if (!(shared == part.cores)) {
            return false;  // adding this range would have split the class
        }
        rest = rest.without(shared);
        const std::size_t before = part.coverage.steps();
        part.coverage.put(start, end);
        steps_ += part.coverage.steps() - before;
    }
    return rest.empty();
}

bool GridCoverage::finish() {
    total_ = 0;
    for (Class& part : classes_) {
        if (!part.coverage.finish()) {
            return false;
        }
        total_ += static_cast<std::uint64_t>(part.cores.count()) * part.coverage.covered();
    }
    return true;
}

void GridCoverage::clear() {
    classes_.clear();
    total_ = shared_ = 0;
    steps_ = 0;
}

void GridCoverage::watch(const std::vector<Coverage::Range>& everywhere) {
    unwatch();
    for (const auto& [start, end] : everywhere) {
        everywhere_.add(start, end);
    }
    for (Class& part : classes_) {
        part.joint = part.coverage;
        for (const auto& [start, end] : everywhere) {
            part.joint.add(start, end);
        }
    }
    watched_ = true;
    measure_shared();
}

void GridCoverage::unwatch() {
    for (Class& part : classes_) {
        part.joint = Coverage{};
    }
    everywhere_ = Coverage{};
    shared_ = 0;
    watched_ = false;
}

void GridCoverage::add_everywhere(std::uint64_t start, std::uint64_t end) {
    everywhere_.add(start, end);
    for (Class& part : classes_) {
        part.joint.add(start, end);
    }
    measure_shared();
}

void GridCoverage::remove_everywhere(std::uint64_t start, std::uint64_t end) {
    everywhere_.remove(start, end);
    for (Class& part : classes_) {
        part.joint.remove(start, end);
    }
    measure_shared();
}

void GridCoverage::measure_shared() {
    shared_ = 0;
    for (const Class& part : classes_) {
        shared_ += shared_in(part);
    }
}

}  // namespace ttmem
