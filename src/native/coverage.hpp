// How many bytes a changing set of address ranges covers, on one core and on a grid of cores.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace ttmem {

// The union length of a multiset of ranges, exact to the byte, kept while ranges come and go.
//
// A treap holds, at each address where the number of covering ranges changes, by how much. Each node knows for its
// subtree the lowest depth of cover and how many bytes lie at that depth; at the root depth 0 means 'uncovered'. One
// more range costs O(log n), however many thousand programs are alive: the stock runtime walks them all (47 ms at
// 4,096 programs).
class Coverage {
public:
    void add(std::uint64_t start, std::uint64_t end) { change(start, end, +1); }
    void remove(std::uint64_t start, std::uint64_t end) { change(start, end, -1); }
    std::uint64_t covered() const;
    std::size_t nodes() const { return nodes_.size() - free_.size(); }
    std::vector<std::pair<std::uint64_t, std::uint64_t>> regions() const;

private:
    static constexpr std::uint32_t NONE = 0xFFFFFFFF;
    struct Node {
        std::uint64_t at, first, last, lowest_bytes;
        std::int32_t delta, sum, lowest;
        std::uint32_t priority, left, right;
    };

    void change(std::uint64_t start, std::uint64_t end, std::int32_t by);
    void shift(std::uint64_t at, std::int32_t by);
    std::uint32_t insert(std::uint32_t root, std::uint64_t at, std::int32_t by);
    std::uint32_t erase(std::uint32_t root, std::uint64_t at);
    std::uint32_t merge(std::uint32_t left, std::uint32_t right);
    bool nudge(std::uint32_t root, std::uint64_t at, std::int32_t by, bool& vanished);
    std::uint32_t rotate_left(std::uint32_t root);
    std::uint32_t rotate_right(std::uint32_t root);
    void pull(std::uint32_t index);
    void walk(std::uint32_t root, std::vector<std::pair<std::uint64_t, std::int32_t>>& out) const;

    std::vector<Node> nodes_;
    std::vector<std::uint32_t> free_;
    std::uint32_t root_ = NONE;
    std::uint32_t random_ = 0x9E3779B9;
};

// A set of cores: bit y * 32 + x.
class CoreMask {
public:
    static constexpr int WORDS = 16;

    bool empty() const;
    int count() const;
    bool operator==(const CoreMask& other) const { return words == other.words; }
    CoreMask operator&(const CoreMask& other) const;
    CoreMask operator|(const CoreMask& other) const;
    CoreMask without(const CoreMask& other) const;

    std::array<std::uint64_t, WORDS> words{};
};

// Coverage on every core of a grid. Cores with the same ranges share one Coverage ('class'), so a program on 110 cores
// costs as much as on one; a range on a part of a class splits it.
class GridCoverage {
public:
    struct Class {
        CoreMask cores;
        Coverage coverage;
    };

    void add(const CoreMask& cores, std::uint64_t start, std::uint64_t end);
    void remove(const CoreMask& cores, std::uint64_t start, std::uint64_t end);
    void clear();
    std::uint64_t total() const { return total_; }
    std::size_t nodes() const { return nodes_; }
    const std::vector<Class>& classes() const { return classes_; }

private:
    template <typename Change>
    void each(const CoreMask& cores, bool create, Change change);

    std::vector<Class> classes_;
    std::uint64_t total_ = 0;
    std::size_t nodes_ = 0;
};

}  // namespace ttmem
