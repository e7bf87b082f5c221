// For rare paths (a new string, a new set of devices). A thread that cannot get it soon does without: nobody waits
// long.
#pragma once

#include <sched.h>

#include "memory_order.hpp"

namespace ttmem::probe {

class ShortLock {
public:
    explicit ShortLock(std::atomic<bool>& held) : held_(held) {
        // Where more threads run than there are cores, the one that holds it may wait for a core itself.
        for (int yields = 0; yields <= 4 && !mine_; ++yields) {
            if (yields) {
                sched_yield();
            }
            for (int attempt = 0; attempt < 20'000 && !mine_; ++attempt) {
                mine_ = !held_.exchange(true, order::OBSERVE);
            }
        }
    }
    ~ShortLock() {
        if (mine_) {
            held_.store(false, order::PUBLISH);
        }
    }
    ShortLock(const ShortLock&) = delete;
    ShortLock& operator=(const ShortLock&) = delete;
    explicit operator bool() const { return mine_; }

private:
    std::atomic<bool>& held_;
    bool mine_ = false;
};

}  // namespace ttmem::probe
