// How many bytes a changing set of address ranges covers, on one core and on a grid of cores.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace ttmem {

// The union length of a multiset of ranges, exact to the byte, updated as ranges are added and removed.
//
// A step marks each address where the number of covering ranges changes, and by how much. Steps are kept in the leaves
// of a B+ tree, so that adding a range touches few cache lines however many thousand programs are alive (the stock
// runtime walks them all: 47 ms at 4,096). For each child, a node knows the lowest depth of cover in its part of the
// address space and how many bytes have that depth; at the root, depth 0 means 'uncovered'.
//
// Programs place their circular buffers upwards from one address, so the union is nearly always one run without holes.
// What a range adds to such a run is a subtraction: the range itself is queued until its steps are needed.
class Coverage {
public:
    void add(std::uint64_t start, std::uint64_t end);
    void remove(std::uint64_t start, std::uint64_t end);  // a range that was added
    std::uint64_t covered() const { return covered_; }
    std::size_t steps() const { return steps_ + 2 * waiting_.size(); }
    using Range = std::pair<std::uint64_t, std::uint64_t>;
    std::vector<Range> regions() const;

    // To restore one, with the same ranges queued as before: expect() first, then put() for each range, then finish(),
    // which returns false if this cannot have been the state of one.
    static constexpr std::size_t MAX_WAITING = 64;
    const Range& run() const { return run_; }
    const std::vector<Range>& waiting() const { return waiting_; }
    void expect(const Range& run, std::vector<Range> waiting);
    void put(std::uint64_t start, std::uint64_t end);
    bool finish();

private:
    static constexpr std::uint32_t FAN = 32;
    // Depth is relative to the depth before the first step of this part.
    struct Sum {
        std::uint64_t lowest_bytes;
        std::int32_t lowest, total;
    };
    struct Leaf {
        std::uint32_t count = 0;
        std::int32_t delta[FAN];
        std::uint64_t at[FAN];
    };
    // Child i has the addresses from first[i] to first[i + 1]. These bounds stay when steps are removed.
    struct Inner {
        std::uint32_t count = 0, stale = 0;  // stale: bit per child
        std::uint32_t child[FAN];
        std::uint64_t first[FAN];
        Sum sum[FAN];
    };

    void settle();
    void shift(std::uint64_t at, std::int32_t by);
    bool full(std::uint32_t level, std::uint32_t node) const {
        return (level == 0 ? leaves_[node].count : inners_[node].count) == FAN;
    }
    void split_child(std::uint32_t level, std::uint32_t inner, std::uint32_t place);
    void close_up();
    void measure();
    Sum sum_of(std::uint32_t level, std::uint32_t node, std::uint64_t from, std::uint64_t to);
    std::uint64_t first_uncovered(std::uint32_t level, std::uint32_t node, std::uint64_t from, std::uint64_t to,
                                  std::int32_t depth, std::uint64_t after) const;
    template <typename Visit>
    void each_step(std::uint32_t level, std::uint32_t node, Visit& visit) const;

    std::vector<Leaf> leaves_;
    std::vector<Inner> inners_;
    std::uint32_t root_ = 0, levels_ = 0;  // levels of inner nodes above the leaves
    std::size_t steps_ = 0;
    std::uint64_t covered_ = 0;
    Range run_{0, 0};             // known to be covered; empty if nothing is known
    std::vector<Range> waiting_;  // inside run_
    std::uint64_t expected_ = 0;  // bit per queued range that was not put yet
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

// Coverage on every core of a grid. Cores with the same ranges share one Coverage (a 'class'), so a program on 110
// cores costs as much as on one; a range on a part of a class splits it.
class GridCoverage {
public:
    struct Class {
        CoreMask cores;
        Coverage coverage;
        Coverage joint;  // together with the ranges on all cores; only while they are watched
    };

    void add(const CoreMask& cores, std::uint64_t start, std::uint64_t end);
    void remove(const CoreMask& cores, std::uint64_t start, std::uint64_t end);
    void clear();
    std::uint64_t total() const { return total_; }
    std::size_t steps() const { return steps_; }
    const std::vector<Class>& classes() const { return classes_; }

    // Ranges that lie on every core, and how much of the total lies inside them. Watching costs as much again for each
    // change, so it begins when somebody needs it.
    void watch(const std::vector<Coverage::Range>& everywhere);
    void unwatch();
    bool watched() const { return watched_; }
    void add_everywhere(std::uint64_t start, std::uint64_t end);
    void remove_everywhere(std::uint64_t start, std::uint64_t end);
    std::uint64_t shared() const { return shared_; }

    // To restore one, like a Coverage; false if that is impossible.
    bool expect(const CoreMask& cores, Coverage coverage);
    bool put(const CoreMask& cores, std::uint64_t start, std::uint64_t end);
    bool finish();

private:
    template <typename Change>
    void each(const CoreMask& cores, bool create, Change change);
    void measure_shared();
    std::uint64_t shared_in(const Class& part) const {
        const std::uint64_t apart = part.coverage.covered() + everywhere_.covered();
        return static_cast<std::uint64_t>(part.cores.count()) * (apart - part.joint.covered());
    }

    std::vector<Class> classes_;
    std::uint64_t total_ = 0, shared_ = 0;
    std::size_t steps_ = 0;
    Coverage everywhere_;
    bool watched_ = false;
};

}  // namespace ttmem
