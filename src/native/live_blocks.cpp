#include "live_blocks.hpp"

#include <algorithm>
#include <new>

namespace ttmem {

void LiveBlocks::begin(std::vector<Block> blocks) {
    std::sort(blocks.begin(), blocks.end());
    blocks_ = std::move(blocks);
    journal_.clear();
    kept_ = true;
    measured_ = false;
}

void LiveBlocks::note(const Block& block, std::int32_t by) {
    if (!kept_) {
        return;
    }
    if (journal_.size() >= std::max(SHORTEST_JOURNAL, blocks_.size())) {
        *this = LiveBlocks{};
        return;
    }
    try {
        journal_.push_back(Change{block, by});
    } catch (const std::bad_alloc&) {
        *this = LiveBlocks{};
    }
}

void LiveBlocks::settle() {
    if (journal_.empty()) {
        return;
    }
    std::sort(journal_.begin(), journal_.end(), [](const Change& a, const Change& b) { return a.block < b.block; });
    std::vector<Block> merged;
    merged.reserve(blocks_.size() + journal_.size());
    auto old = blocks_.begin();
    for (auto change = journal_.begin(); change != journal_.end();) {
        const Block block = change->block;
        std::int64_t times = 0;
        for (; change != journal_.end() && change->block == block; ++change) {
            times += change->by;
        }
        for (; old != blocks_.end() && *old < block; ++old) {
            merged.push_back(*old);
        }
        for (; old != blocks_.end() && *old == block; ++old) {
            ++times;
        }
        merged.insert(merged.end(), static_cast<std::size_t>(std::max<std::int64_t>(times, 0)), block);
    }
    merged.insert(merged.end(), old, blocks_.end());
    blocks_.swap(merged);
    journal_.clear();
    measured_ = false;
}

std::optional<std::uint64_t> LiveBlocks::largest_hole(const Region& region) {
    settle();
    if (!measured_ || !(region_ == region)) {
        hole_ = measure(region);
        region_ = region;
        measured_ = true;
    }
    return hole_;
}

std::optional<std::uint64_t> LiveBlocks::measure(const Region& region) const {
    const std::uint64_t end = region.base + region.bank_size;
    std::uint64_t at = region.base, largest = 0;
    for (const Block& block : blocks_) {
        const std::uint64_t size = region.banks ? block.reserved / region.banks : 0;
        if (size == 0 || block.reserved % region.banks || block.address < at || block.address > end ||
            size > end - block.address) {
            return std::nullopt;
        }
        largest = std::max(largest, block.address - at);
        at = block.address + size;
    }
    return std::max(largest, end - at);
}

}  // namespace ttmem
