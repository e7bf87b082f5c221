#include "coverage.hpp"

#include <algorithm>

namespace ttmem {

std::uint64_t Coverage::covered() const {
    if (blocks_.empty()) {
        return 0;
    }
    const Summary& whole = tree_[1];
    const std::uint64_t span = whole.last - whole.first;
    return whole.lowest == 0 ? span - whole.lowest_bytes : span;
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> Coverage::regions() const {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> out;
    std::int32_t depth = 0;
    for (const Block& block : blocks_) {
        for (const Step& step : block.steps) {
            const std::int32_t before = depth;
            depth += step.delta;
            if (before == 0 && depth > 0) {
                out.emplace_back(step.at, step.at);
            } else if (before > 0 && depth == 0) {
                out.back().second = step.at;
            }
        }
    }
    return out;
}

void Coverage::change(std::uint64_t start, std::uint64_t end, std::int32_t by) {
    if (start < end) {
        shift(start, by);
        shift(end, -by);
    }
}

void Coverage::shift(std::uint64_t at, std::int32_t by) {
    if (blocks_.empty()) {
        blocks_.emplace_back();
        blocks_.back().steps.push_back(Step{at, by});
        ++steps_;
        return rebuild();
    }
    const auto after = std::upper_bound(blocks_.begin(), blocks_.end(), at, [](std::uint64_t address, const Block& block) {
        return address < block.steps.front().at;
    });
    const auto index = static_cast<std::size_t>(after == blocks_.begin() ? 0 : after - blocks_.begin() - 1);
    std::vector<Step>& steps = blocks_[index].steps;
    const auto place = std::lower_bound(
        steps.begin(), steps.end(), at, [](const Step& step, std::uint64_t address) { return step.at < address; });
    if (place == steps.end() || place->at != at) {
        steps.insert(place, Step{at, by});
        ++steps_;
        if (steps.size() > BLOCK) {
            Block upper;
            upper.steps.assign(steps.begin() + BLOCK / 2, steps.end());
            steps.resize(BLOCK / 2);
            blocks_.insert(blocks_.begin() + static_cast<std::ptrdiff_t>(index) + 1, std::move(upper));
            return rebuild();
        }
    } else if ((place->delta += by) == 0) {
        steps.erase(place);
        --steps_;
        if (steps.empty()) {
            blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(index));
            return rebuild();
        }
    }
    refresh(index);
}

void Coverage::rebuild() {
    leaves_ = 1;
    while (leaves_ < blocks_.size()) {
        leaves_ *= 2;
    }
    tree_.assign(2 * leaves_, Summary{});
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
        tree_[leaves_ + i] = summary_of(blocks_[i]);
    }
    for (std::size_t i = leaves_ - 1; i > 0; --i) {
        tree_[i] = joined(tree_[2 * i], tree_[2 * i + 1]);
    }
}

void Coverage::refresh(std::size_t block) {
    std::size_t i = leaves_ + block;
    tree_[i] = summary_of(blocks_[block]);
    for (i /= 2; i > 0; i /= 2) {
        tree_[i] = joined(tree_[2 * i], tree_[2 * i + 1]);
    }
}

Coverage::Summary Coverage::summary_of(const Block& block) {
    const std::vector<Step>& steps = block.steps;
    Summary out;
    out.empty = false;
    out.first = steps.front().at;
    out.last = steps.back().at;
    out.lowest = INT32_MAX;
    for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
        out.sum += steps[i].delta;
        const std::uint64_t bytes = steps[i + 1].at - steps[i].at;
        if (out.sum < out.lowest) {
            out.lowest = out.sum;
            out.lowest_bytes = bytes;
        } else if (out.sum == out.lowest) {
            out.lowest_bytes += bytes;
        }
    }
    out.sum += steps.back().delta;
    return out;
}

Coverage::Summary Coverage::joined(const Summary& left, const Summary& right) {
    if (left.empty || right.empty) {
        return left.empty ? right : left;
    }
    Summary out = left;
    out.last = right.last;
    out.sum = left.sum + right.sum;
    const auto take = [&out](std::int32_t depth, std::uint64_t bytes) {
        if (depth < out.lowest) {
            out.lowest = depth;
            out.lowest_bytes = bytes;
        } else if (depth == out.lowest) {
            out.lowest_bytes += bytes;
        }
    };
    take(left.sum, right.first - left.last);
    if (right.lowest != INT32_MAX) {
        take(left.sum + right.lowest, right.lowest_bytes);
    }
    return out;
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
        const std::uint64_t before = part.coverage.covered();
        const std::size_t steps_before = part.coverage.steps();
        change(part.coverage);
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
            classes_.push_back(Class{shared, classes_[i].coverage});
            steps_ += classes_.back().coverage.steps();
            apply(classes_.back());
        }
    }
    if (create && !rest.empty()) {
        classes_.push_back(Class{rest, Coverage{}});
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

void GridCoverage::clear() {
    classes_.clear();
    total_ = 0;
    steps_ = 0;
}

}  // namespace ttmem
