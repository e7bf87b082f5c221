// A hash table for entries that contain their key and must not move.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#ifndef TTMEM_TABLE_CHUNK
#define TTMEM_TABLE_CHUNK 1024  // entries; the fuzzers have less, to meet more boundaries
#endif

namespace ttmem {

// Open addressing over 8-byte slots (hash, index into a pool). A lookup touches one cache line of slots and the entry
// itself; the nodes of std::unordered_map cost 4 times as much with 4,096 programs alive. T has a `key`.
template <typename T, typename Key, typename Hash>
class Table {
public:
    explicit Table(Hash hash) : hash_(hash), slots_(FEWEST_SLOTS) {}

    T* find(const Key& key) {
        const std::size_t at = slot_of(key);
        return slots_[at].index == EMPTY ? nullptr : &entry(slots_[at].index);
    }
    const T* find(const Key& key) const { return const_cast<Table*>(this)->find(key); }

    // Prefetches what find() will read, so that several tables can be waited for at once.
    void expect(const Key& key) const { __builtin_prefetch(&slots_[home(hash_of(key))]); }

    // Allocates the memory that the next insert() needs; insert(), erase() and rekey() then allocate none.
    void make_room() {
        if ((used_ + 1) * 4 > slots_.size() * 3) {
            grow();
        }
        if (free_.empty() && made_ == chunks_.size() * CHUNK) {
            add_chunk();
        }
    }

    // The key must be new.
    T& insert(const Key& key) {
        make_room();
        std::uint32_t index = static_cast<std::uint32_t>(made_);
        if (free_.empty()) {
            ++made_;
        } else {
            index = free_.back();
            free_.pop_back();
        }
        place(Slot{hash_of(key), index});
        ++used_;
        T& made = entry(index);
        made.key = key;
        return made;
    }

    void erase(T& item) {
        const std::size_t at = slot_of(Key(item.key));
        free_.push_back(slots_[at].index);
        item = T{};
        --used_;
        vacate(at);
        if (used_ == 0 && chunks_.size() > 1) {
            release();
        }
    }

    // The entry stays where it is and gets another key, which must be new.
    void rekey(T& item, const Key& key) {
        const std::size_t at = slot_of(Key(item.key));
        const std::uint32_t index = slots_[at].index;
        vacate(at);
        item.key = key;
        place(Slot{hash_of(key), index});
    }

    // After a burst: returns chunks without live entries if most are empty. Entries do not move.
    [[gnu::cold]] void trim() {
        if (chunks_.size() < 2 || used_ * 4 > (chunks_.size() - gaps_.size()) * CHUNK) {
            return;
        }
        std::vector<std::uint32_t> live(chunks_.size());
        for (const Slot& slot : slots_) {
            if (slot.index != EMPTY) {
                ++live[slot.index / CHUNK];
            }
        }
        live.back() += made_ < chunks_.size() * CHUNK;  // not all of its entries are in the free list
        std::size_t kept = 0;
        for (const std::uint32_t count : live) {
            kept += count != 0;
        }
        std::vector<std::uint32_t> free, gaps;
        free.reserve(kept * CHUNK);
        gaps.reserve(live.size());
        for (const std::uint32_t index : free_) {
            if (live[index / CHUNK]) {
                free.push_back(index);
            }
        }
        resize_slots(std::max(FEWEST_SLOTS, used_ * 2));
        for (std::uint32_t at = 0; at < live.size(); ++at) {
            if (!live[at]) {
                chunks_[at].reset();
                gaps.push_back(at);
            }
        }
        free_.swap(free);
        gaps_.swap(gaps);
    }

private:
    static constexpr std::uint32_t EMPTY = 0xFFFFFFFF;
    static constexpr std::size_t CHUNK = TTMEM_TABLE_CHUNK;
    struct Slot {
        std::uint32_t hash = 0, index = EMPTY;
    };

    std::uint32_t hash_of(const Key& key) const { return static_cast<std::uint32_t>(hash_(key)); }
    // In the order of the hashes, so that a table of any size can be filled from a smaller one front to back.
    std::size_t home(std::uint32_t hash) const { return std::uint64_t{hash} * slots_.size() >> 32; }
    std::size_t after(std::size_t at) const { return at + 1 == slots_.size() ? 0 : at + 1; }
    std::size_t distance(std::size_t from, std::size_t to) const {
        return to >= from ? to - from : to + slots_.size() - from;
    }
    T& entry(std::uint32_t index) { return chunks_[index / CHUNK][index % CHUNK]; }

    void vacate(std::size_t hole) {
        // Moves up entries that a probe could no longer reach across the gap.
        for (std::size_t next = after(hole); slots_[next].index != EMPTY; next = after(next)) {
            if (distance(home(slots_[next].hash), next) >= distance(hole, next)) {
                slots_[hole] = slots_[next];
                hole = next;
            }
        }
        slots_[hole].index = EMPTY;
    }

    // The slot of the key, or the empty slot where its search ends.
    std::size_t slot_of(const Key& key) {
        const std::uint32_t hash = hash_of(key);
        std::size_t at = home(hash);
        while (slots_[at].index != EMPTY && !(slots_[at].hash == hash && entry(slots_[at].index).key == key)) {
            at = after(at);
        }
        return at;
    }

    void place(Slot slot) {
        std::size_t at = home(slot.hash);
        while (slots_[at].index != EMPTY) {
            at = after(at);
        }
        slots_[at] = slot;
    }

    // Grows by half: doubling would leave two slots in three empty, 21 bytes for each entry.
    [[gnu::cold]] void grow() { resize_slots(slots_.size() + slots_.size() / 2); }

    void resize_slots(std::size_t count) {
        std::vector<Slot> old(count);
        old.swap(slots_);
        for (const Slot& slot : old) {
            if (slot.index != EMPTY) {
                place(slot);
            }
        }
    }

    [[gnu::cold]] void add_chunk() {
        const std::size_t there = (chunks_.size() - gaps_.size()) * CHUNK;
        if (free_.capacity() < there + CHUNK) {
            free_.reserve(there + there / 2 + CHUNK);
        }
        if (gaps_.empty()) {
            chunks_.push_back(std::make_unique<T[]>(CHUNK));
        } else {
            fill_gap();
        }
    }

    void fill_gap() {
        const std::uint32_t at = gaps_.back();
        chunks_[at] = std::make_unique<T[]>(CHUNK);
        gaps_.pop_back();
        for (std::uint32_t i = CHUNK; i-- > 0;) {
            free_.push_back(at * CHUNK + i);
        }
    }

    [[gnu::cold]] void release() {
        for (std::size_t i = 0; i < FEWEST_SLOTS; ++i) {
            slots_[i] = Slot{};
        }
        slots_.resize(FEWEST_SLOTS);
        slots_.shrink_to_fit();
        chunks_.clear();
        gaps_.clear();
        free_.clear();
        free_.shrink_to_fit();
        made_ = 0;
    }

    static constexpr std::size_t FEWEST_SLOTS = 16;
    Hash hash_;
    std::vector<Slot> slots_;
    std::vector<std::unique_ptr<T[]>> chunks_;
    std::vector<std::uint32_t> gaps_;  // chunks that were returned
    std::vector<std::uint32_t> free_;  // has capacity for every entry
    std::size_t used_ = 0, made_ = 0;  // made: entries of the chunks that were ever in use
};

}  // namespace ttmem
