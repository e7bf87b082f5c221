// Writing these lines takes longer than making them. Small code is preferred.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("Os")
#endif

#include "event_lines.hpp"

#include <algorithm>
#include <charconv>

namespace ttmem {

namespace {

constexpr std::uint64_t MB = 1u << 20;
constexpr const char* KIND_NAMES[KINDS] = {"DRAM", "L1", "SYSTEM_MEMORY", "L1_SMALL", "TRACE"};
constexpr const char* TYPE_NAMES[KERNEL_TYPES] = {"Application", "Fabric", "Dispatch"};
constexpr const char *DONE = "\u2713 ", *UNDONE = "\u2717 ", *ODD = "\u26a0 ";
constexpr std::uint32_t NOT_ACCOUNTED = bit(FindingCode::REJECTED) | bit(FindingCode::TABLE_FULL);
constexpr std::uint32_t TWICE =
    bit(FindingCode::DOUBLE_FREE) | bit(FindingCode::DOUBLE_CB_FREE) | bit(FindingCode::DOUBLE_UNLOAD);
constexpr std::uint32_t UNKNOWN =
    bit(FindingCode::UNKNOWN_FREE) | bit(FindingCode::UNKNOWN_CB_FREE) | bit(FindingCode::UNKNOWN_UNLOAD);

struct Hex {
    std::uint64_t value;
};

struct Megabytes {
    std::uint64_t bytes;
};

class Text {
public:
    explicit Text(std::string& out) : out_(out) {}
    Text& operator<<(const char* text) {
        out_ += text;
        return *this;
    }
    Text& operator<<(std::uint64_t value) { return number(value, 10); }
    Text& operator<<(Hex hex) { return (*this << "0x").number(hex.value, 16); }
    // Like printf's %.3f, rounding halves to even; printf itself took 40 % of the time of a line.
    Text& operator<<(Megabytes size) {
        const std::uint64_t part = size.bytes % MB * 1000, rest = part % MB;
        const std::uint64_t up = rest > MB / 2 || (rest == MB / 2 && part / MB % 2) ? 1 : 0;
        const std::uint64_t thousandths = part / MB + up;
        const std::uint64_t shown = thousandths % 1000;
        *this << size.bytes / MB + thousandths / 1000 << (shown < 10 ? ".00" : shown < 100 ? ".0" : ".") << shown;
        return *this << " MB";
    }

private:
    Text& number(std::uint64_t value, int base) {
        char digits[24];
        const char* end = std::to_chars(digits, digits + sizeof digits, value, base).ptr;
        out_.append(digits, static_cast<std::size_t>(end - digits));
        return *this;
    }

    std::string& out_;
};

// The totals whose changes the lines report.
struct Sums {
    std::uint64_t cb_demand = 0, footprint[KERNEL_TYPES] = {}, dispatches = 0;
};

Sums sums_of(const Process& process, std::uint32_t device) {
    Sums sums;
    const auto found = process.accounts.find(device);
    if (found != process.accounts.end()) {
        sums.cb_demand = found->second->cb_demand;
        std::copy(std::begin(found->second->footprint), std::end(found->second->footprint), sums.footprint);
        sums.dispatches = found->second->counters.dispatches;
    }
    return sums;
}

// Describes what one event did, after it was applied.
class Story {
public:
    Story(const Event& event, std::uint64_t pid, std::uint32_t found, const Device& device, std::string& out)
        : event_(event), pid_(pid), found_(found), device_(device), out_(out) {}

    void allocated(bool live, std::uint64_t old_size, const Buffer* now) {
        if (found_ & NOT_ACCOUNTED || !now || (live && event_.flags & RESENT)) {
            return;
        }
        if (found_ & bit(FindingCode::BUFFER_RESIZED)) {
            named(ODD) << "Buffer " << Hex{event_.id} << " on device " << event_.device
                       << " reused with another size: old=" << old_size << " new=" << event_.size << "\n";
        }
        named(DONE) << "Allocated " << event_.size << " bytes of " << KIND_NAMES[event_.kind] << " on device "
                    << event_.device << " (buffer_id=" << Hex{event_.id};
        if (now->references > 1) {
            out_ << ", ref_count=" << now->references;
        }
        out_ << ")\n";
    }

    void freed(bool live, std::uint64_t size, std::uint64_t references) {
        if (!live) {
            return unmatched("Deallocation", "freed", "buffer", "allocated");
        }
        named(UNDONE) << "Freed buffer " << Hex{event_.id} << " on device " << event_.device << " (" << size << " bytes, ";
        if (references > 1) {
            out_ << "ref_count=" << references - 1 << " remaining)\n";
        } else {
            out_ << "FINAL)\n";
        }
    }

    void circular_buffers(const Sums& before, const Sums& after) {
        const bool by_program = event_.op == PROGRAM_DESTROY && before.cb_demand == after.cb_demand;
        if (found_ & (NOT_ACCOUNTED | TWICE | UNKNOWN) || by_program) {
            return event_.op == CB_FREE ? unmatched("CB_FREE", "freed", "circular buffer", "allocated") : void();
        }
        out_ << (event_.op == CB_ALLOC ? DONE : UNDONE) << (event_.op == CB_ALLOC ? "[CB_ALLOC]" : "[CB_FREE]");
        out_ << " Device " << event_.device << ": ";
        moved(before.cb_demand, after.cb_demand, device_.cb_demand);
    }

    void kernels(const Sums& before, const Sums& after, bool dispatches) {
        bool changed = false;
        for (int type = 0; type < KERNEL_TYPES; ++type) {
            if (before.footprint[type] != after.footprint[type]) {
                changed = true;
                out_ << (event_.op == KERNEL_LOAD ? DONE : UNDONE);
                out_ << (event_.op == KERNEL_LOAD ? "[KERNEL_LOAD] " : "[KERNEL_UNLOAD] ") << TYPE_NAMES[type];
                out_ << " kernel on Device " << event_.device << ": ";
                moved(before.footprint[type], after.footprint[type], device_.footprint);
            }
        }
        if (event_.op != KERNEL_LOAD) {
            unmatched("KERNEL_UNLOAD", "unloaded", event_.op == KERNEL_UNLOAD ? "kernel" : "program", "loaded");
        } else if (!changed && dispatches && before.dispatches != after.dispatches) {
            dispatched("Kernel ");
        }
    }

    void dispatched(const char* what) {
        out_ << DONE << "[DISPATCH] [PID " << pid_ << "] " << what << Hex{event_.id} << " on Device " << event_.device;
        out_ << (event_.flags & CACHE_HIT ? ", cache hit" : event_.flags & CACHE_MISS ? ", cache miss" : "");
        out_ << " (Total: " << device_.counters.dispatches << ")\n";
    }

private:
    Text& named(const char* mark) { return out_ << mark << "[PID " << pid_ << "] "; }

    void unmatched(const char* what, const char* ended, const char* thing, const char* begun) {
        if (found_ & TWICE) {
            named(ODD) << what << " for already " << ended << " " << thing << " " << Hex{event_.id} << " on device "
                       << event_.device << " (double free)\n";
        } else if (found_ & UNKNOWN) {
            named(ODD) << what << " for unknown " << thing << " " << Hex{event_.id} << " on device " << event_.device
                       << " (" << begun << " before tracking started)\n";
        }
    }

    void moved(std::uint64_t before, std::uint64_t after, std::uint64_t total) {
        const bool begins = event_.op == CB_ALLOC || event_.op == KERNEL_LOAD;
        const bool more = after > before || (after == before && begins);
        out_ << (more ? "+" : "-") << Megabytes{more ? after - before : before - after};
        out_ << " (Total: " << Megabytes{total} << ")\n";
    }

    const Event& event_;
    std::uint64_t pid_;
    std::uint32_t found_;
    const Device& device_;
    Text out_;
};

}  // namespace

std::size_t EventLines::apply(Ledger& ledger, const Sender& sender, const Event* events, std::size_t count,
                              std::uint64_t now, std::string& out) {
    const Process& process = ledger.processes()[sender.process];
    for (std::size_t i = 0; i < count; ++i) {
        const Event& event = events[i];
        const auto bound = process.bound.find(event.device);
        if (bound == process.bound.end()) {
            return i;
        }
        const Device& device = ledger.devices()[bound->second];
        const bool named = event.op == ALLOC || event.flags & KIND_KNOWN;
        const bool of_buffer = event.op == ALLOC || event.op == FREE;
        const auto find = [&] {
            return of_buffer ? ledger.find_buffer(sender.process, event.device, named ? event.kind : -1, event.id) : nullptr;
        };
        const Buffer* buffer = find();
        const bool live = buffer != nullptr;
        const std::uint64_t size = live ? buffer->size : 0, references = live ? buffer->references : 0;
        const Sums before = of_buffer ? Sums{} : sums_of(process, bound->second);
        ledger.take_found();
        ledger.apply(sender.process, &event, 1, now);
        Story story(event, sender.pid, ledger.take_found(), device, out);
        const Sums after = of_buffer ? Sums{} : sums_of(process, bound->second);
        switch (event.op) {
            case ALLOC: story.allocated(live, size, find()); break;
            case FREE: story.freed(live, size, references); break;
            case CB_ALLOC:
            case CB_FREE: story.circular_buffers(before, after); break;
            case KERNEL_LOAD:
            case KERNEL_UNLOAD: story.kernels(before, after, sender.dispatches); break;
            case PROGRAM_DESTROY:
                story.circular_buffers(before, after);
                story.kernels(before, after, false);
                break;
            case PROGRAM_DISPATCH:
                if (sender.dispatches && before.dispatches != after.dispatches) {
                    story.dispatched("Program ");
                }
                break;
            default: break;
        }
        tell_peak(device, bound->second, event.device, sender.elapsed_ms, out);
    }
    return count;
}

// In whole MB: a line for every further byte would double the log of a growing program.
void EventLines::tell_peak(const Device& device, std::uint32_t index, std::uint32_t logical, std::uint64_t elapsed_ms,
                           std::string& out) {
    if (index >= peaks_.size()) {
        peaks_.resize(index + 1);
    }
    const std::uint64_t peak = device.peak[KIND_L1] / MB;
    if (peak > peaks_[index]) {
        Text(out) << "[" << elapsed_ms << "ms] L1 Peak on device " << logical << ": " << peak << " MB ("
                  << device.count[KIND_L1] << " buffers)\n";
    }
    peaks_[index] = peak;
}

}  // namespace ttmem
