// Moves a process's whole account of one device to another: its reports turned out to belong there.
// Once per device: small code is preferred.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("Os")
#endif

#include <algorithm>
#include <new>
#include <vector>

#include "ledger.hpp"

namespace ttmem {

namespace {

void move_sums(const Account& account, Device& from, Device& to) {
    for (int kind = 0; kind < KINDS; ++kind) {
        if (kind != KIND_SYSTEM_MEMORY) {
            from.held[kind] -= account.held[kind];
            to.held[kind] += account.held[kind];
            from.count[kind] -= account.count[kind];
            to.count[kind] += account.count[kind];
        }
    }
    from.cb_used -= account.cb_used();
    to.cb_used += account.cb_used();
    from.cb_demand -= account.cb_demand;
    to.cb_demand += account.cb_demand;
    for (const std::uint64_t footprint : account.footprint) {
        from.footprint -= footprint;
        to.footprint += footprint;
    }
    std::uint64_t Counters::*const each[] = {
        &Counters::loads, &Counters::unloads, &Counters::dispatches, &Counters::hits, &Counters::misses};
    for (const auto counter : each) {
        from.counters.*counter -= account.counters.*counter;
        to.counters.*counter += account.counters.*counter;
    }
    to.cache_seen |= account.cache_seen;
}

// The first reported size of a content counts, so it is moved as well.
void move_content(Kernel& kernel, Device& from, Device& to) {
    if (kernel.content == 0 || !kernel.binary_known) {
        --from.unknown_contents;
        ++to.unknown_contents;
        return;
    }
    const auto old = from.contents.find(kernel.content);
    try {
        Content& content = to.contents[kernel.content];
        if (content.kernels++ == 0) {
            content.bytes = old->second.bytes;
            to.distinct_bytes += content.bytes;
        }
    } catch (const std::bad_alloc&) {
        kernel.content = 0;
        ++to.unknown_contents;
    }
    if (--old->second.kernels == 0) {
        from.distinct_bytes -= old->second.bytes;
        from.contents.erase(old);
    }
}

}  // namespace

bool Ledger::move_account(std::uint32_t index, std::uint32_t old, std::uint32_t device, std::uint64_t now) {
    Process& process = processes_[index];
    if (old == device || process.accounts.count(old) == 0) {
        return true;
    }
    if (process.accounts.count(device)) {
        return false;  // it reports both: they are different devices
    }
    Context from = context(index, old, 0);
    const auto moves = [&](auto& table, auto& item) {
        auto key = item.key;
        key.device = static_cast<std::uint16_t>(device);
        table.rekey(item, key);
    };
    const auto each = [&](auto& chain, auto act) {
        for (auto* item = chain.head; item; item = item->next) {
            if (item->key.device == old) {
                act(*item);
            }
        }
    };
    std::vector<Program*> resident;
    std::vector<Program*>& residents = from.device.residents;
    resident.reserve(residents.size());
    devices_[device].residents.reserve(devices_[device].residents.size() + residents.size());  // from here on nothing throws
    each(process.programs, [&](Program& program) {
        if (!program.resident.empty()) {
            resident.push_back(&program);
            residents.erase(std::find(residents.begin(), residents.end(), &program));
        }
        if (from.device.last_dispatched == &program) {
            from.device.last_dispatched = nullptr;
        }
    });
    const auto place = [this](Device& where, const Buffer& buffer, bool in) {
        if (buffer.key.kind != KIND_SYSTEM_MEMORY) {
            place_buffer(where, buffer, in);
        }
    };
    each(process.buffers, [&](Buffer& buffer) { place(from.device, buffer, false); });
    each(process.kernels, [&](Kernel& kernel) { move_content(kernel, from.device, devices_[device]); });
    move_sums(from.account, from.device, devices_[device]);
    auto account = process.accounts.extract(old);
    account.key() = device;
    process.accounts.insert(std::move(account));

    Context to = context(index, device, now);
    each(process.circular_buffers, [&](CircularBuffer& cb) {
        if (SameId* same = same_id_.find(Key{cb.key.id, 0, index, static_cast<std::uint16_t>(old), 0})) {
            moves(same_id_, *same);
        }
    });
    each(process.buffers, [&](Buffer& buffer) {
        place(to.device, buffer, true);
        if (log_) {
            log_->buffer(buffer, false);
        }
        moves(buffers_, buffer);
        if (log_) {
            log_->buffer(buffer, true);
        }
    });
    each(process.circular_buffers, [&](CircularBuffer& cb) { moves(circular_buffers_, cb); });
    each(process.kernels, [&](Kernel& kernel) { moves(kernels_, kernel); });
    each(process.programs, [&](Program& program) { moves(programs_, program); });
    process.freed.move(static_cast<std::uint16_t>(old), static_cast<std::uint16_t>(device));
    for (Program* program : resident) {
        evict(to, *program, program->resident);
        to.device.residents.push_back(program);
        to.device.last_dispatched = nullptr;  // the next dispatch compares nothing
    }
    for (Finding& finding : findings_) {
        if (finding.process == index && finding.device == old) {
            finding.device = device;
        }
    }
    index_findings();
    watch_anew(to);  // it may have other banks
    raise_peaks(to);
    return true;
}

}  // namespace ttmem
