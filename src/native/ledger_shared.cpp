// Circular buffers of programs that are not running, where L1 buffers are now: the runtime reuses their addresses.
#include "ledger.hpp"

#include <algorithm>
#include <new>

namespace ttmem {

namespace {

constexpr std::uint64_t MAX_COST = 4'000'000;  // entries in all maps, about 24 bytes each

bool in_l1(const Buffer& buffer) {
    return (buffer.key.kind == KIND_L1 || buffer.key.kind == KIND_L1_SMALL) && buffer.placed();
}

// On each core; empty if it cannot have come from an allocator that gives every bank the same.
Coverage::Range on_core(const Buffer& buffer, std::uint32_t banks) {
    const bool possible = buffer.reserved % banks == 0 && buffer.address <= MAX_BYTES;
    return {buffer.address, possible ? buffer.address + buffer.reserved / banks : buffer.address};
}

}  // namespace

std::optional<std::uint64_t> Ledger::shared(const Account& account, std::uint32_t device) const {
    if (!account.cb_count || !(account.count[KIND_L1] + account.count[KIND_L1_SMALL])) {
        return 0;
    }
    const bool placed = account.cb_placed() && !account.unreserved[KIND_L1] && !account.unreserved[KIND_L1_SMALL];
    if (!placed || account.shared_unknown || !devices_[device].l1_banks) {
        return std::nullopt;
    }
    return account.cb_cached.shared();
}

void Ledger::set_l1_banks(std::uint32_t device, std::uint32_t banks) {
    if (devices_[device].l1_banks == banks) {
        return;
    }
    devices_[device].l1_banks = banks;
    for (std::uint32_t process = 0; process < processes_.size(); ++process) {
        if (processes_[process].accounts.count(device)) {
            Context at = context(process, device, 0);
            watch_anew(at);
            raise_peaks(at);
        }
    }
}

void Ledger::share_l1(Context& at, const Buffer& buffer, bool in) {
    if (!in_l1(buffer)) {
        return;
    }
    Account& account = at.account;
    if (in) {
        account.lowest_l1 = std::min(account.lowest_l1, buffer.address);
    }
    if (account.cb_cached.watched()) {
        const std::uint64_t before = account.cb_used();
        const auto [start, end] = on_core(buffer, at.device.l1_banks);
        try {
            in ? account.cb_cached.add_everywhere(start, end) : account.cb_cached.remove_everywhere(start, end);
            account.watched_l1 += in ? 1 : ~0ull;
            count_watched(account);
        } catch (const std::bad_alloc&) {
            stop_watching(account);
        }
        at.device.cb_used += account.cb_used() - before;
        if (!in && account.cb_used() != before) {
            raise_peaks(at);
        }
    } else if (in) {
        watch(at);
    }
    if (!in && !(account.count[KIND_L1] + account.count[KIND_L1_SMALL])) {
        account.lowest_l1 = UINT64_MAX;
        account.shared_unknown = false;
    }
}

// Walks over what the process holds once for each account: from then on, the maps follow.
void Ledger::watch(Context& at) {
    Account& account = at.account;
    if (account.highest_cb <= account.lowest_l1 || account.cb_cached.watched() || account.shared_unknown ||
        !at.device.l1_banks) {
        return;
    }
    const std::uint64_t before = account.cb_used();
    try {
        std::vector<Coverage::Range> ranges;
        for (const Buffer* buffer = at.process.buffers.head; buffer; buffer = buffer->next) {
            if (buffer->key.device == at.device_index && in_l1(*buffer)) {
                ranges.push_back(on_core(*buffer, at.device.l1_banks));
            }
        }
        account.watched_l1 = ranges.size();
        count_watched(account);
        if (!account.shared_unknown) {
            account.cb_cached.watch(ranges);
        }
    } catch (const std::bad_alloc&) {
        stop_watching(account);
    }
    at.device.cb_used += account.cb_used() - before;
}

void Ledger::watch_anew(Context& at) {
    const std::uint64_t before = at.account.cb_used();
    stop_watching(at.account);
    at.account.shared_unknown = false;
    at.device.cb_used += at.account.cb_used() - before;
    watch(at);
}

void Ledger::stop_watching(Account& account) {
    account.cb_cached.unwatch();
    account.shared_unknown = true;
    account.watched_l1 = 0;
    watched_cost_ -= std::exchange(account.watched_cost, 0);
}

// Each class of cores has a map of its own.
void Ledger::count_watched(Account& account) {
    const std::uint64_t cost = account.watched_l1 * (account.cb_cached.classes().size() + 1);
    watched_cost_ += cost - account.watched_cost;
    account.watched_cost = cost;
    if (watched_cost_ > MAX_COST) {
        stop_watching(account);
    }
}

}  // namespace ttmem
