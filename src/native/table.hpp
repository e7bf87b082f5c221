// A hash table for things that carry their key and must not move.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace ttmem {

// Open addressing over 8-byte slots (hash, index into a pool). Looking for a key touches one cache line of slots and
// the entry itself; the nodes of std::unordered_map cost 4 times as much with 4,096 programs alive. T has a `key`.
template <typename T, typename Key, typename Hash>
class Table {
public:
    explicit Table(Hash hash) : hash_(hash), slots_(16) {}

    T* find(const Key& key) {
        const std::size_t at = slot_of(key);
        return slots_[at].index == EMPTY ? nullptr : &entry(slots_[at].index);
    }
    const T* find(const Key& key) const { return const_cast<Table*>(this)->find(key); }

    // Begins to load what find() will look at: several tables can then be waited for at once.
    void expect(const Key& key) const {
        __builtin_prefetch(&slots_[static_cast<std::uint32_t>(hash_(key)) & (slots_.size() - 1)]);
    }

    // The key must be new.
    T& insert(const Key& key) {
        if ((used_ + 1) * 4 > slots_.size() * 3) {
            grow();
        }
        const std::uint32_t index = take();
        const auto hash = static_cast<std::uint32_t>(hash_(key));
        place(Slot{hash, index});
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
        if (used_ == 0) {
            release();
        }
    }

    // The entry stays where it is, under another key, which must be new.
    void rekey(T& item, const Key& key) {
        const std::size_t at = slot_of(Key(item.key));
        const std::uint32_t index = slots_[at].index;
        vacate(at);
        item.key = key;
        place(Slot{static_cast<std::uint32_t>(hash_(key)), index});
    }

private:
    static constexpr std::uint32_t EMPTY = 0xFFFFFFFF;
    static constexpr std::size_t CHUNK = 1024;
    struct Slot {
        std::uint32_t hash = 0, index = EMPTY;
    };

    void vacate(std::size_t hole) {
        // Moves up what a probe would no longer reach across the hole.
        const std::size_t mask = slots_.size() - 1;
        for (std::size_t next = (hole + 1) & mask; slots_[next].index != EMPTY; next = (next + 1) & mask) {
            const std::size_t home = slots_[next].hash & mask;
            if (((next - home) & mask) >= ((next - hole) & mask)) {
                slots_[hole] = slots_[next];
                hole = next;
            }
        }
        slots_[hole].index = EMPTY;
    }

    T& entry(std::uint32_t index) { return chunks_[index / CHUNK][index % CHUNK]; }

    // Where the key is, or the empty slot where its search ends.
    std::size_t slot_of(const Key& key) {
        const std::size_t mask = slots_.size() - 1;
        const auto hash = static_cast<std::uint32_t>(hash_(key));
        std::size_t at = hash & mask;
        while (slots_[at].index != EMPTY && !(slots_[at].hash == hash && entry(slots_[at].index).key == key)) {
            at = (at + 1) & mask;
        }
        return at;
    }

    void place(Slot slot) {
        const std::size_t mask = slots_.size() - 1;
        std::size_t at = slot.hash & mask;
        while (slots_[at].index != EMPTY) {
            at = (at + 1) & mask;
        }
        slots_[at] = slot;
    }

    void grow() {
        std::vector<Slot> old(slots_.size() * 2);
        old.swap(slots_);
        for (const Slot& slot : old) {
            if (slot.index != EMPTY) {
                place(slot);
            }
        }
    }

    std::uint32_t take() {
        if (free_.empty()) {
            const auto first = static_cast<std::uint32_t>(chunks_.size() * CHUNK);
            chunks_.push_back(std::make_unique<T[]>(CHUNK));
            for (std::uint32_t i = CHUNK; i > 0; --i) {
                free_.push_back(first + i - 1);
            }
        }
        const std::uint32_t index = free_.back();
        free_.pop_back();
        return index;
    }

    void release() {
        if (chunks_.size() > 1) {
            chunks_.clear();
            free_ = {};
            slots_ = std::vector<Slot>(16);
        }
    }

    Hash hash_;
    std::vector<Slot> slots_;
    std::vector<std::unique_ptr<T[]>> chunks_;
    std::vector<std::uint32_t> free_;
    std::size_t used_ = 0;
};

}  // namespace ttmem
