// What one process freed recently: freeing it again is a different error from freeing something never seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <new>
#include <tuple>
#include <vector>

namespace ttmem {

// Remembering a free costs one write into a ring. Names are searched, and indexed, only when a free matches nothing
// that is alive: keeping an index up to date halved the rate of the ledger.
class RecentFrees {
public:
    static constexpr std::size_t LIMIT = 4096;

    enum class What : std::uint8_t { BUFFER, CIRCULAR_BUFFER, KERNEL, PROGRAM };

    struct Name {
        std::uint64_t id, second;
        std::uint16_t device, kind;
        What what;
        bool operator<(const Name& other) const { return tied() < other.tied(); }

    private:
        std::tuple<std::uint64_t, std::uint64_t, std::uint16_t, std::uint16_t, What> tied() const {
            return {id, second, device, kind, what};
        }
    };

    struct Entry {
        Name name;
        bool freed;
    };

    void freed(const Name& name) { add(Entry{name, true}); }

    // Something with that name was allocated but not accounted, so its free will match nothing.
    void unseen(const Name& name) {
        if (added_) {
            add(Entry{name, false});
        }
    }

    void add(const Entry& entry) {
        if (ring_.size() < LIMIT) {
            try {
                ring_.push_back(entry);
            } catch (const std::bad_alloc&) {
                return clear();  // without memory for it, it must not be used for a verdict
            }
        } else {
            ring_[added_ % LIMIT] = entry;
        }
        ++added_;
    }

    bool has(const Name& name) {
        const std::uint64_t first = added_ > LIMIT ? added_ - LIMIT : 0;
        if (indexed_ < first || latest_.size() > 2 * LIMIT) {
            latest_.clear();
            indexed_ = first;
        }
        try {
            for (; indexed_ < added_; ++indexed_) {
                latest_[ring_[indexed_ % LIMIT].name] = indexed_;
            }
        } catch (const std::bad_alloc&) {
            return false;
        }
        const auto found = latest_.find(name);
        return found != latest_.end() && found->second >= first && ring_[found->second % LIMIT].freed;
    }

    void move(std::uint16_t old, std::uint16_t device) {
        for (Entry& entry : ring_) {
            entry.name.device = entry.name.device == old ? device : entry.name.device;
        }
        latest_.clear();
        indexed_ = 0;
    }

    void clear() { *this = RecentFrees{}; }

    // The oldest first.
    std::vector<Entry> entries() const {
        std::vector<Entry> out;
        out.reserve(ring_.size());
        for (std::uint64_t at = added_ - ring_.size(); at < added_; ++at) {
            out.push_back(ring_[at % LIMIT]);
        }
        return out;
    }

private:

    std::vector<Entry> ring_;
    std::uint64_t added_ = 0, indexed_ = 0;
    std::map<Name, std::uint64_t> latest_;
};

}  // namespace ttmem
