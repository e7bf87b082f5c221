// Buffers: the accounts of DRAM, L1, L1_SMALL, TRACE and host memory.
#include "ledger.hpp"

#include <algorithm>

namespace ttmem {

using What = RecentFrees::What;

void Ledger::allocate(Context& at, const Event& event) {
    if (event.kind >= KINDS || event.size == 0 || event.size > MAX_BYTES || event.extra > MAX_BYTES) {
        forget_freed_buffer(at, event);
        const Reject size = event.size ? Reject::SIZE_HUGE : Reject::SIZE_ZERO;
        return reject(at, event.kind >= KINDS ? Reject::KIND : size, event);
    }
    buffers_.make_room();
    const BufferKey key{event.id, at.process_index, at.device_index, event.kind};
    if (Buffer* found = buffers_.find(key)) {
        Buffer& buffer = *found;
        if (buffer.size == event.size) {
            const std::uint32_t resent = std::max(1u, std::min(event.number, MAX_REFERENCES));
            const bool known = event.flags & RESENT || at.process.follows_table;
            buffer.references = known ? resent : std::min<std::uint32_t>(buffer.references + 1, MAX_REFERENCES);
            buffer.generation = at.process.generation;
            return;
        }
        if (!(event.flags & RESENT)) {
            report(at, FindingCode::BUFFER_RESIZED, buffer.size, event.id);
        }
        remove_buffer(at, buffer);
    }
    insert_buffer(at, key, event);
}

void Ledger::insert_buffer(Context& at, const BufferKey& key, const Event& event) {
    if (!has_space(at, event.size, event.id)) {
        return forget_freed_buffer(at, event);
    }
    Buffer& buffer = buffers_.insert(key);
    buffer.size = event.size;
    buffer.reserved = event.extra;
    buffer.address = event.address;
    buffer.time = at.time;
    buffer.set_order(++order_);
    buffer.references = std::max(1u, std::min(event.number, MAX_REFERENCES));
    buffer.name = event.name;
    buffer.site = event.site;
    buffer.phase = event.cores;
    buffer.generation = at.process.generation;
    at.process.buffers.push(buffer);
    count_buffer(at, buffer, true);
    raise_peaks(at);
    if (log_) {
        log_->buffer(buffer, true);
    }
}

void Ledger::deallocate(Context& at, const Event& event) {
    const bool named = event.flags & KIND_KNOWN;
    if (named && event.kind >= KINDS) {
        return reject(at, Reject::KIND, event);
    }
    const Buffer* match = match_buffer(at.process_index, at.device_index, named ? event.kind : -1, event.id);
    if (!match) {
        return report_unmatched(
            at, was_buffer_freed(at, event), FindingCode::DOUBLE_FREE, FindingCode::UNKNOWN_FREE, event);
    }
    Buffer& buffer = const_cast<Buffer&>(*match);
    if (--buffer.references == 0) {
        at.process.freed.freed(buffer.key.name(What::BUFFER));
        remove_buffer(at, buffer);
    }
}

// It was allocated but not accounted, so its free is not a double free.
void Ledger::forget_freed_buffer(Context& at, const Event& event) {
    for (std::uint16_t kind = 0; kind < KINDS; ++kind) {
        if (event.kind == kind || event.kind >= KINDS) {
            at.process.freed.unseen({event.id, 0, at.device_index, kind, What::BUFFER});
        }
    }
}

bool Ledger::was_buffer_freed(Context& at, const Event& event) {
    for (std::uint16_t kind = 0; kind < KINDS; ++kind) {
        const bool meant = !(event.flags & KIND_KNOWN) || event.kind == kind;
        if (meant && at.process.freed.has({event.id, 0, at.device_index, kind, What::BUFFER})) {
            return true;
        }
    }
    return false;
}

const Buffer* Ledger::match_buffer(std::uint32_t process, std::uint32_t device, int kind, std::uint64_t id) const {
    const auto account = processes_[process].accounts.find(device);
    if (account == processes_[process].accounts.end()) {
        return nullptr;
    }
    const Buffer* latest = nullptr;
    for (std::uint16_t each = 0; each < KINDS; ++each) {
        if ((kind >= 0 && each != kind) || account->second->count[each] == 0) {
            continue;
        }
        const Buffer* found = buffers_.find(BufferKey{id, process, static_cast<std::uint16_t>(device), each});
        if (found && (!latest || found->order() > latest->order())) {
            latest = found;
        }
    }
    return latest;
}

const Buffer* Ledger::find_buffer(std::uint32_t process, std::uint32_t logical, int kind, std::uint64_t id) const {
    const auto bound = processes_[process].bound.find(logical);
    return bound == processes_[process].bound.end() ? nullptr : match_buffer(process, bound->second, kind, id);
}

void Ledger::remove_buffer(Context& at, Buffer& buffer) {
    if (log_) {
        log_->buffer(buffer, false);
    }
    count_buffer(at, buffer, false);
    at.process.buffers.drop(buffer);
    give_back(at, 1);
    buffers_.erase(buffer);
}

void Ledger::count_buffer(Context& at, const Buffer& buffer, bool in) {
    const std::uint64_t sign = in ? 1 : ~0ull;  // unsigned wrap-around subtracts
    const int kind = buffer.key.kind;
    at.account.requested[kind] += sign * buffer.size;
    at.account.held[kind] += sign * buffer.held();
    at.account.count[kind] += sign;
    at.account.unreserved[kind] += buffer.reserved ? 0 : sign;
    if (kind != KIND_SYSTEM_MEMORY) {
        at.device.held[kind] += sign * buffer.held();
        at.device.count[kind] += sign;
        place_buffer(at.device, buffer, in);
        share_l1(at, buffer, in);
    }
}

void Ledger::place_buffer(Device& device, const Buffer& buffer, bool in) {
    const int kind = buffer.key.kind;
    if (!buffer.placed()) {
        device.unplaced[kind] += in ? 1 : ~0ull;
    } else if (in) {
        device.blocks[kind].add(Block{buffer.address, buffer.reserved});
    } else {
        device.blocks[kind].remove(Block{buffer.address, buffer.reserved});
    }
}

std::optional<std::uint64_t> Ledger::largest_free(std::uint32_t index, int kind, const Region& region) {
    Device& device = devices_[index];
    if (device.unplaced[kind]) {
        return std::nullopt;
    }
    if (!device.blocks[kind].kept()) {
        begin_blocks();
    }
    return device.blocks[kind].largest_hole(region);
}

// One walk over all buffers updates every memory that is not kept: whoever asks for one usually asks for all.
void Ledger::begin_blocks() {
    std::vector<std::vector<Block>> found(devices_.size() * KINDS);
    for (const Process& process : processes_) {
        for (const Buffer* buffer = process.buffers.head; buffer; buffer = buffer->next) {
            const bool on_device = buffer->key.kind != KIND_SYSTEM_MEMORY;
            if (on_device && buffer->placed() && !devices_[buffer->key.device].blocks[buffer->key.kind].kept()) {
                found[buffer->key.device * KINDS + buffer->key.kind].push_back(Block{buffer->address, buffer->reserved});
            }
        }
    }
    for (std::size_t i = 0; i < found.size(); ++i) {
        LiveBlocks& blocks = devices_[i / KINDS].blocks[i % KINDS];
        if (!blocks.kept()) {
            blocks.begin(std::move(found[i]));
        }
    }
}

void Ledger::raise_peaks(Context& at) {
    Device& device = at.device;
    for (int kind = 0; kind < KINDS; ++kind) {
        if (device.held[kind] > device.peak[kind]) {
            device.peak[kind] = device.held[kind];
            device.peak_time[kind] = at.time;
        }
    }
    if (device.l1_used() > device.l1_peak) {
        device.l1_peak = device.l1_used();
        device.l1_peak_time = at.time;
    }
}

}  // namespace ttmem
