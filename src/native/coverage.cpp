#include "coverage.hpp"

#include <algorithm>

namespace ttmem {

std::uint64_t Coverage::covered() const {
    if (root_ == NONE) {
        return 0;
    }
    const Node& root = nodes_[root_];
    const std::uint64_t span = root.last - root.first;
    return root.lowest == 0 ? span - root.lowest_bytes : span;
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> Coverage::regions() const {
    std::vector<std::pair<std::uint64_t, std::int32_t>> steps;
    walk(root_, steps);
    std::vector<std::pair<std::uint64_t, std::uint64_t>> out;
    std::int32_t depth = 0;
    for (const auto& [at, delta] : steps) {
        const std::int32_t before = depth;
        depth += delta;
        if (before == 0 && depth > 0) {
            out.emplace_back(at, at);
        } else if (before > 0 && depth == 0) {
            out.back().second = at;
        }
    }
    return out;
}

void Coverage::walk(std::uint32_t root, std::vector<std::pair<std::uint64_t, std::int32_t>>& out) const {
    if (root == NONE) {
        return;
    }
    walk(nodes_[root].left, out);
    out.emplace_back(nodes_[root].at, nodes_[root].delta);
    walk(nodes_[root].right, out);
}

void Coverage::change(std::uint64_t start, std::uint64_t end, std::int32_t by) {
    if (start < end) {
        shift(start, by);
        shift(end, -by);
    }
}

void Coverage::shift(std::uint64_t at, std::int32_t by) {
    bool vanished = false;
    if (!nudge(root_, at, by, vanished)) {
        root_ = insert(root_, at, by);
    } else if (vanished) {
        root_ = erase(root_, at);
    }
}

// Changes an existing node's delta; false if there is none at that address.
bool Coverage::nudge(std::uint32_t root, std::uint64_t at, std::int32_t by, bool& vanished) {
    if (root == NONE) {
        return false;
    }
    Node& node = nodes_[root];
    bool found = true;
    if (at == node.at) {
        node.delta += by;
        vanished = node.delta == 0;
    } else {
        found = nudge(at < node.at ? node.left : node.right, at, by, vanished);
    }
    if (found) {
        pull(root);
    }
    return found;
}

std::uint32_t Coverage::insert(std::uint32_t root, std::uint64_t at, std::int32_t by) {
    if (root == NONE) {
        std::uint32_t index;
        if (free_.empty()) {
            index = static_cast<std::uint32_t>(nodes_.size());
            nodes_.emplace_back();
        } else {
            index = free_.back();
            free_.pop_back();
        }
        random_ ^= random_ << 13, random_ ^= random_ >> 17, random_ ^= random_ << 5;
        nodes_[index] = Node{at, at, at, 0, by, by, 0, random_, NONE, NONE};
        pull(index);
        return index;
    }
    if (at < nodes_[root].at) {
        const std::uint32_t child = insert(nodes_[root].left, at, by);
        nodes_[root].left = child;
        if (nodes_[child].priority > nodes_[root].priority) {
            return rotate_right(root);
        }
    } else {
        const std::uint32_t child = insert(nodes_[root].right, at, by);
        nodes_[root].right = child;
        if (nodes_[child].priority > nodes_[root].priority) {
            return rotate_left(root);
        }
    }
    pull(root);
    return root;
}

std::uint32_t Coverage::erase(std::uint32_t root, std::uint64_t at) {
    Node& node = nodes_[root];
    if (at == node.at) {
        free_.push_back(root);
        return merge(node.left, node.right);
    }
    if (at < node.at) {
        node.left = erase(node.left, at);
    } else {
        node.right = erase(node.right, at);
    }
    pull(root);
    return root;
}

std::uint32_t Coverage::merge(std::uint32_t left, std::uint32_t right) {
    if (left == NONE || right == NONE) {
        return left == NONE ? right : left;
    }
    if (nodes_[left].priority > nodes_[right].priority) {
        nodes_[left].right = merge(nodes_[left].right, right);
        pull(left);
        return left;
    }
    nodes_[right].left = merge(left, nodes_[right].left);
    pull(right);
    return right;
}

std::uint32_t Coverage::rotate_right(std::uint32_t root) {
    const std::uint32_t up = nodes_[root].left;
    nodes_[root].left = nodes_[up].right;
    nodes_[up].right = root;
    pull(root);
    pull(up);
    return up;
}

std::uint32_t Coverage::rotate_left(std::uint32_t root) {
    const std::uint32_t up = nodes_[root].right;
    nodes_[root].right = nodes_[up].left;
    nodes_[up].left = root;
    pull(root);
    pull(up);
    return up;
}

// A subtree over addresses a1 < ... < an speaks of the bytes between a1 and an only; what lies between it and its
// neighbours is added where they meet.
void Coverage::pull(std::uint32_t index) {
    Node& node = nodes_[index];
    node.first = node.last = node.at;
    node.sum = node.delta;
    node.lowest = INT32_MAX;
    node.lowest_bytes = 0;
    const auto take = [&node](std::int32_t depth, std::uint64_t bytes) {
        if (bytes == 0 || depth > node.lowest) {
            return;
        }
        node.lowest_bytes = depth == node.lowest ? node.lowest_bytes + bytes : bytes;
        node.lowest = depth;
    };
    std::int32_t depth = 0;
    if (node.left != NONE) {
        const Node& left = nodes_[node.left];
        take(left.lowest, left.lowest_bytes);
        take(left.sum, node.at - left.last);
        node.first = left.first;
        node.sum += left.sum;
        depth = left.sum;
    }
    depth += node.delta;
    if (node.right != NONE) {
        const Node& right = nodes_[node.right];
        take(depth, right.first - node.at);
        if (right.lowest_bytes > 0) {
            take(depth + right.lowest, right.lowest_bytes);
        }
        node.last = right.last;
        node.sum += right.sum;
    }
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
        const std::size_t nodes_before = part.coverage.nodes();
        change(part.coverage);
        total_ += static_cast<std::uint64_t>(part.cores.count()) * (part.coverage.covered() - before);
        nodes_ += part.coverage.nodes() - nodes_before;
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
            nodes_ += classes_.back().coverage.nodes();
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
        std::remove_if(classes_.begin(), classes_.end(), [](const Class& part) { return part.coverage.nodes() == 0; }),
        classes_.end());
}

void GridCoverage::clear() {
    classes_.clear();
    total_ = 0;
    nodes_ = 0;
}

}  // namespace ttmem
