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
// At each address where the number of covering ranges changes stands a step: by how much. Steps are kept in order, in
// blocks of at most 64, with a summary of each block: the lowest depth of cover in it, and how many bytes lie at that
// depth. A tree of sums over the blocks gives the whole; depth 0 there means 'uncovered'. One more range costs about the
// same however many thousand programs are alive (the stock runtime walks them all: 47 ms at 4,096), and touches few
// cache lines, which is why it is no balanced tree of nodes: that was measured at 3 times the cost with 4,096.
class Coverage {
public:
    void add(std::uint64_t start, std::uint64_t end) { change(start, end, +1); }
    void remove(std::uint64_t start, std::uint64_t end) { change(start, end, -1); }
    std::uint64_t covered() const;
    std::size_t steps() const { return steps_; }
    std::vector<std::pair<std::uint64_t, std::uint64_t>> regions() const;

private:
    static constexpr std::size_t BLOCK = 32;
    struct Step {
        std::uint64_t at;
        std::int32_t delta;
    };
    // Of the bytes between the first and the last step; `lowest` counts from the depth before the first.
    struct Summary {
        std::uint64_t first, last, lowest_bytes = 0;
        std::int32_t sum = 0, lowest = 0;
        bool empty = true;
    };
    struct Block {
        std::vector<Step> steps;
    };

    void change(std::uint64_t start, std::uint64_t end, std::int32_t by);
    void shift(std::uint64_t at, std::int32_t by);
    void rebuild();
    void refresh(std::size_t block);
    static Summary summary_of(const Block& block);
    static Summary joined(const Summary& left, const Summary& right);

    std::vector<Block> blocks_;
    std::vector<Summary> tree_;  // leaves_ summaries of blocks at the end, parents before them
    std::size_t leaves_ = 0, steps_ = 0;
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
    std::size_t steps() const { return steps_; }
    const std::vector<Class>& classes() const { return classes_; }

private:
    template <typename Change>
    void each(const CoreMask& cores, bool create, Change change);

    std::vector<Class> classes_;
    std::uint64_t total_ = 0;
    std::size_t steps_ = 0;
};

}  // namespace ttmem
