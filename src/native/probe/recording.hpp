// The entry of every hook: is there a region, is tracking on, and are we not inside a hook already?
#pragma once

#include "region.hpp"
#include "thread_state.hpp"

namespace ttmem::probe {

class Recording {
public:
    Recording() : Recording(tracking_region()) {}
    explicit Recording(Region* region) : region_(region) {
        if (region_) {
            thread_ = thread_state();
            if (!thread_ || thread_->inside) {
                region_ = nullptr;
            } else {
                thread_->inside = true;
            }
        }
    }
    ~Recording() {
        if (region_) {
            thread_->inside = false;
        }
    }
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;

    explicit operator bool() const { return region_ != nullptr; }
    Region& region() const { return *region_; }
    ThreadState& thread() const { return *thread_; }

private:
    Region* region_;
    ThreadState* thread_ = nullptr;
};

// For things that are freed.
class Following : public Recording {
public:
    Following() : Recording(holding_region()) {}
};

}  // namespace ttmem::probe
