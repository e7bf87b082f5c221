// The blocks of one memory in the order of their addresses, and the largest gap between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace ttmem {

// The addresses that the allocator of one memory hands out, the same in every bank.
struct Region {
    std::uint64_t base, bank_size, banks;
    bool operator==(const Region& o) const {
        return base == o.base && bank_size == o.bank_size && banks == o.banks;
    }
};

struct Block {
    std::uint64_t address, reserved;  // reserved: in all banks together
    bool operator==(const Block& o) const { return address == o.address && reserved == o.reserved; }
    bool operator<(const Block& o) const {
        return address != o.address ? address < o.address : reserved < o.reserved;
    }
};

// Kept only while somebody queries it. An event then costs one entry in a journal; a query sorts the journal and merges
// it with the blocks of the last query: 0.3 ms with 100,000 alive, instead of 10 ms for sorting them. A journal that
// grows longer than the blocks is dropped together with them, and the next query starts over.
class LiveBlocks {
public:
    void add(const Block& block) { note(block, +1); }
    void remove(const Block& block) { note(block, -1); }

    bool kept() const { return kept_; }
    void begin(std::vector<Block> blocks);

    // Bytes per bank; nothing if the blocks cannot belong to one allocator of this region: two overlap, or one is
    // outside or not a multiple of the banks. Only while kept.
    std::optional<std::uint64_t> largest_hole(const Region& region);

private:
    static constexpr std::size_t SHORTEST_JOURNAL = 4096;
    struct Change {
        Block block;
        std::int32_t by;
    };

    void note(const Block& block, std::int32_t by);
    void settle();
    std::optional<std::uint64_t> measure(const Region& region) const;

    bool kept_ = false, measured_ = false;
    std::vector<Block> blocks_;
    std::vector<Change> journal_;
    Region region_{};
    std::optional<std::uint64_t> hole_;
};

}  // namespace ttmem
