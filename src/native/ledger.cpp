#include "ledger.hpp"

#include <malloc.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <new>

#include "links.hpp"

namespace ttmem {

namespace {

constexpr std::size_t MAX_REJECTIONS = 16;
constexpr std::uint64_t WORTH_TRIMMING = 100'000;

std::uint64_t finding_key(FindingCode anomaly, std::uint64_t process, std::uint64_t device) {
    return (std::uint64_t(anomaly) << 56) | (process << 16) | device;
}

}  // namespace

Ledger::Ledger(std::uint64_t max_live, std::uint64_t max_steps, std::uint64_t seed)
    : max_live_(max_live),
      max_steps_(max_steps),
      seed_(seed),
      buffers_(KeyHash{seed}),
      circular_buffers_(KeyHash{seed}),
      same_id_(KeyHash{seed}),
      kernels_(KeyHash{seed}),
      programs_(KeyHash{seed}) {
    rejections_.reserve(MAX_REJECTIONS);
}

std::uint32_t Ledger::next_process() const {
    const auto unused = std::find_if(processes_.begin(), processes_.end(), [](const Process& p) { return !p.open; });
    return static_cast<std::uint32_t>(unused - processes_.begin());
}

std::uint32_t Ledger::open_process(std::uint32_t owner) {
    if (owner >= owned_.size()) {
        owned_.resize(owner + 1);
    }
    const std::uint32_t index = next_process();
    if (index == processes_.size()) {
        processes_.emplace_back();
    } else {
        processes_[index] = Process{};
    }
    processes_[index].open = true;
    processes_[index].owner = owner;
    return index;
}

std::uint32_t Ledger::add_device() {
    devices_.emplace_back();
    return static_cast<std::uint32_t>(devices_.size() - 1);
}

bool Ledger::clear_device(std::uint32_t device, bool unbind) {
    for (const Process& process : processes_) {
        const auto found = process.accounts.find(device);
        const Account* account = found == process.accounts.end() ? nullptr : found->second.get();
        const auto sum = [](const auto& counts) { return std::accumulate(std::begin(counts), std::end(counts), 0ull); };
        if (account && (sum(account->count) || account->cb_count || account->global_cbs || sum(account->kernels) ||
                        account->programs)) {
            return false;
        }
        const auto here = [&](const auto& pair) { return pair.second == device; };
        if (!unbind && std::any_of(process.bound.begin(), process.bound.end(), here)) {
            return false;
        }
    }
    for (Process& process : processes_) {
        process.accounts.erase(device);
        for (auto each = process.bound.begin(); each != process.bound.end();) {
            each = each->second == device ? process.bound.erase(each) : std::next(each);
        }
    }
    forget_findings([&](const Finding& finding) { return finding.device == device; });
    devices_[device] = Device{};
    return true;
}

void Ledger::bind(std::uint32_t process, std::uint32_t logical, std::uint32_t device) {
    processes_[process].bound[logical] = device;
}

void Ledger::define_cores(std::uint32_t process, std::uint32_t id, const CoreMask& mask) {
    processes_[process].cores[id] = std::make_shared<const CoreMask>(mask);
}

void Ledger::reset_peak(std::uint32_t index) {
    Device& device = devices_[index];
    std::copy(std::begin(device.held), std::end(device.held), device.peak);
    std::fill(std::begin(device.peak_time), std::end(device.peak_time), 0);
    device.l1_peak = device.l1_used();
    device.l1_peak_time = 0;
}

Account& Ledger::account_of(Process& process, std::uint32_t device) {
    auto found = process.accounts.find(device);
    if (found == process.accounts.end()) {
        found = process.accounts.emplace(device, std::make_unique<Account>()).first;
    }
    return *found->second;
}

Ledger::Context Ledger::context(std::uint32_t process, std::uint32_t device, std::uint64_t time) {
    Process& owner = processes_[process];
    return Context{owner, process, account_of(owner, device), devices_[device], static_cast<std::uint16_t>(device), time};
}

std::size_t Ledger::apply(std::uint32_t process, const Event* events, std::size_t count, std::uint64_t now) {
    Process& owner = processes_[process];
    std::uint32_t known_logical = UNBOUND, known_device = UNBOUND;
    Account* account = nullptr;
    for (std::size_t i = 0; i < count; ++i) {
        const Event& event = events[i];
        if (event.op >= FIRST_NOTICE && owner.follows_table) {
            continue;
        }
        if (event.device != known_logical || account == nullptr) {
            const auto found = owner.bound.find(event.device);
            if (found == owner.bound.end()) {
                return i;
            }
            known_logical = event.device;
            known_device = found->second;
            account = &account_of(owner, known_device);
        }
        const std::uint64_t time = event.time && event.time <= now ? event.time : now;
        Context at{owner, process, *account, devices_[known_device], static_cast<std::uint16_t>(known_device), time};
        ++owner.events;
        one(at, event);
    }
    return count;
}

void Ledger::one(Context& at, const Event& event) {
    switch (event.op) {
        case ALLOC: return allocate(at, event);
        case FREE: return deallocate(at, event);
        case CB_ALLOC: return cb_allocate(at, event);
        case CB_FREE: return cb_deallocate(at, event);
        case KERNEL_LOAD: return kernel_load(at, event);
        case KERNEL_UNLOAD: return kernel_unload(at, event);
        case PROGRAM_DISPATCH: return dispatch(at, event);
        case PROGRAM_DESTROY: return destroy_program(at, event);
        case BINARY_STATUS: return set_status(at, event);
        case RING: return set_ring(at, event);
        case COUNTERS: return set_counters(at, event);
        case CACHE_ENTRIES: return set_cache_entries(at, event);
        case PROGRAM_NAME: return name_program(at, event);
        default: return reject(at, Reject::OP, event);
    }
}

std::uint64_t Ledger::room_for(const Process& process) const {
    const std::uint64_t all = max_live_ - live_;
    if (process.owner == 0) {
        return all;
    }
    const std::uint64_t share = (max_live_ + 1) / 2;
    return std::min(all, share - std::min(share, owned_[process.owner]));
}

// Stacked circular buffers are counted individually: the limit on entries also keeps every sum far below 2^63.
bool Ledger::has_space(Context& at, std::uint64_t bytes, std::uint64_t id, std::uint64_t entries) {
    if (entries > room_for(at.process)) {
        ++dropped_;
        report(at, FindingCode::TABLE_FULL, bytes, id);
        return false;
    }
    live_ += entries, at.process.live += entries, owned_[at.process.owner] += entries;
    return true;
}

void Ledger::give_back(Context& at, std::uint64_t entries) {
    live_ -= entries, at.process.live -= entries, owned_[at.process.owner] -= entries;
}

void Ledger::reject(Context& at, Reject reason, const Event& event) {
    ++rejected_;
    report(at, FindingCode::REJECTED, 0, event.id);
    if (rejections_.size() < MAX_REJECTIONS) {
        rejections_.push_back(Rejection{reason, at.process_index, event});
    }
}

std::vector<Rejection> Ledger::take_rejections() {
    std::vector<Rejection> taken = rejections_;
    rejections_.clear();
    return taken;
}

void Ledger::report(Context& at, FindingCode anomaly, std::uint64_t bytes, std::uint64_t id) {
    if (log_) {
        log_->finding({static_cast<std::uint64_t>(anomaly), at.process_index, at.device_index, 1, bytes, id});
    }
    found_ |= bit(anomaly);
    const std::uint64_t key = finding_key(anomaly, at.process_index, at.device_index);
    auto found = finding_index_.find(key);
    if (found == finding_index_.end()) {
        if (findings_.size() >= MAX_FINDINGS) {
            return;
        }
        try {
            found = finding_index_.emplace(key, findings_.size()).first;
            findings_.push_back(Finding{anomaly, at.process_index, at.device_index, 0, 0, 0});
        } catch (const std::bad_alloc&) {
            finding_index_.erase(key);
            return;
        }
    }
    Finding& finding = findings_[found->second];
    ++finding.times;
    finding.bytes += bytes;
    finding.last_id = id;
}

// `freed`: what the event names was already freed, and not allocated since.
void Ledger::report_unmatched(Context& at, bool freed, FindingCode twice, FindingCode unknown, const Event& event) {
    if (!at.process.follows_table) {
        const bool sized = event.op == CB_FREE || event.op == KERNEL_UNLOAD;
        report(at, freed ? twice : unknown, sized ? event.size : 0, event.id);
    }
}

template <typename Which>
void Ledger::forget_findings(Which which) {
    const auto rest = std::remove_if(findings_.begin(), findings_.end(), which);
    if (rest != findings_.end()) {
        findings_.erase(rest, findings_.end());
        index_findings();
    }
}

void Ledger::index_findings() noexcept {
    finding_index_.clear();
    try {
        for (std::size_t i = 0; i < findings_.size(); ++i) {
            finding_index_[finding_key(findings_[i].anomaly, findings_[i].process, findings_[i].device)] = i;
        }
    } catch (const std::bad_alloc&) {  // what is not in the index is looked up again
    }
}

void Ledger::follow_table(std::uint32_t process) { processes_[process].follows_table = true; }

// Entries that did not fit are reported again.
void Ledger::begin_resync(std::uint32_t process) {
    ++processes_[process].generation;
    forget_findings([&](const Finding& f) { return f.process == process && f.anomaly == FindingCode::TABLE_FULL; });
}

// Not everything between two resyncs was seen, so double frees cannot be detected.
template <typename Which>
void Ledger::sweep(std::uint32_t index, Which which) {
    Process& process = processes_[index];
    const auto each = [&](auto& chain, auto remove) {
        for (auto* item = chain.head; item;) {
            auto* next = item->next;
            if (which(*item)) {
                Context at = context(index, item->key.device, 0);
                remove(at, *item);
            }
            item = next;
        }
    };
    each(process.buffers, [this](Context& at, Buffer& item) { remove_buffer(at, item); });
    each(process.circular_buffers, [this](Context& at, CircularBuffer& item) { remove_cb(at, item); });
    each(process.kernels, [this](Context& at, Kernel& item) { remove_kernel(at, item); });
    each(process.programs, [this](Context& at, Program& item) {
        if (!item.kernels && !item.circular_buffers) {
            drop_program(at, item);
        }
    });
}

void Ledger::end_resync(std::uint32_t process) {
    const std::uint32_t generation = processes_[process].generation;
    sweep(process, [&](const auto& item) { return item.generation != generation; });
    processes_[process].freed.clear();
}

// Removes what a process holds: everything, or only what it did not report again since begin_resync.
void Ledger::forget_device(std::uint32_t device) {
    for (std::uint32_t index = 0; index < processes_.size(); ++index) {
        sweep(index, [&](const auto& item) { return item.key.device == device; });
        processes_[index].accounts.erase(device);
    }
    forget_findings([&](const Finding& finding) { return finding.device == device; });
    const std::uint32_t banks = devices_[device].l1_banks;
    devices_[device] = Device{};
    devices_[device].l1_banks = banks;
}

void Ledger::release_process(std::uint32_t index) {
    const std::uint64_t held = processes_[index].live;
    sweep(index, [](const auto&) { return true; });
    processes_[index] = Process{};
    forget_findings([&](const Finding& finding) { return finding.process == index; });
    if (held > WORTH_TRIMMING) {
        trim();
    }
}

void Ledger::trim() {
    try {
        buffers_.trim();
        circular_buffers_.trim();
        same_id_.trim();
        kernels_.trim();
        programs_.trim();
    } catch (const std::bad_alloc&) {
        // what is not returned now is returned later
    }
    malloc_trim(0);
}

}  // namespace ttmem
