// For the rare paths (a new string, a new set of devices). Who cannot have it soon goes without: nobody waits long.
#pragma once

#include <atomic>

namespace ttmem::probe {

class ShortLock {
public:
    explicit ShortLock(std::atomic<bool>& held) : held_(held) {
        for (int attempt = 0; attempt < 20'000 && !mine_; ++attempt) {
            mine_ = !held_.exchange(true, std::memory_order_acquire);
        }
    }
    ~ShortLock() {
        if (mine_) {
            held_.store(false, std::memory_order_release);
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
