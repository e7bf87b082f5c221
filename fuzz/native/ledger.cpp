// Any bytes as events of two processes, with memory that may run out on the way; then the laws of the accounts.
//
// An input: which allocation fails (2 bytes, 0: none), then steps of 65 bytes, a command and an event. The last step may
// be short; the rest of its event is zero.
#include "../../src/native/ledger.hpp"

#include <cstring>

#include "oom.hpp"

using namespace ttmem;

namespace {

constexpr std::uint64_t MAX_LIVE = 400, MAX_STEPS = 300;

void law(bool holds) {
    if (!holds) {
        __builtin_trap();
    }
}

void check(const Ledger& ledger) {
    std::uint64_t live = 0;
    std::vector<std::uint64_t> held(ledger.devices().size() * KINDS), cb_used(ledger.devices().size());
    for (const Process& process : ledger.processes()) {
        std::uint64_t mine = 0;
        for (const auto& [device, account] : process.accounts) {
            std::uint64_t requested[KINDS] = {}, own[KINDS] = {}, count[KINDS] = {}, demand = 0, cbs = 0, resident = 0;
            for (const Buffer* b = process.buffers.head; b; b = b->next) {
                if (b->key.device == device) {
                    law(b->key.kind < KINDS && b->references > 0 && b->references <= MAX_REFERENCES);
                    requested[b->key.kind] += b->size, own[b->key.kind] += b->held(), ++count[b->key.kind], ++mine;
                }
            }
            for (const CircularBuffer* cb = process.circular_buffers.head; cb; cb = cb->next) {
                if (cb->key.device == device) {
                    demand += cb->counted() ? cb->references * cb->size : 0;
                    cbs += cb->counted() ? cb->references : 0;
                    mine += cb->references;
                }
            }
            std::uint64_t kernels = 0, programs = 0;
            for (const Kernel* k = process.kernels.head; k; k = k->next) {
                kernels += k->key.device == device;
            }
            for (const Program* p = process.programs.head; p; p = p->next) {
                if (p->key.device == device) {
                    ++programs, resident += p->resident_bytes;
                }
            }
            mine += kernels + programs;
            for (int kind = 0; kind < KINDS; ++kind) {
                law(account->requested[kind] == requested[kind] && account->held[kind] == own[kind]);
                law(account->count[kind] == count[kind]);
                held[device * KINDS + static_cast<std::size_t>(kind)] += kind == KIND_SYSTEM ? 0 : own[kind];
            }
            law(account->cb_demand == demand && account->cb_count == cbs && account->cb_resident == resident);
            law(account->kernels[0] + account->kernels[1] + account->kernels[2] == kernels);
            law(account->programs == programs);
            law(account->cb_cached.total() <= demand && account->cb_dataflow.total() <= account->cb_cached.total());
            std::uint64_t covered = 0;
            for (const GridCoverage::Class& part : account->cb_cached.classes()) {
                for (const auto& [start, end] : part.coverage.regions()) {
                    law(start < end);
                    covered += (end - start) * static_cast<std::uint64_t>(part.cores.count());
                }
            }
            law(account->cb_cached.total() == covered);
            cb_used[device] += account->cb_used();
        }
        law(process.live == mine);
        live += mine;
    }
    law(ledger.live() == live && live <= MAX_LIVE);
    for (std::size_t i = 0; i < ledger.devices().size(); ++i) {
        const Device& device = ledger.devices()[i];
        for (int kind = 0; kind < KINDS; ++kind) {
            law(device.held[kind] == held[i * KINDS + static_cast<std::size_t>(kind)]);
        }
        law(device.cb_used == cb_used[i] && device.l1_used() <= device.l1_peak);
    }
}

void step(Ledger& ledger, std::uint8_t command, const Event& event) {
    const std::uint32_t process = command & 1;
    switch (command >> 1 & 15) {
        case 1: return ledger.begin_resync(process);
        case 2: return ledger.end_resync(process);
        case 3: return ledger.follow_table(process);
        case 4: return ledger.reset_peak(event.device % 2);
        case 5: ledger.move_account(process, event.device % 3, event.number % 3, event.time); return;
        case 6: ledger.largest_free(event.device % 3, event.kind % KINDS, Region{event.id, event.size >> 20, event.number}); return;
        case 7: ledger.find_buffer(process, event.device, event.kind % 6 - 1, event.id); return;
        case 8: ledger.take_rejections(); return;
        case 9: {
            CoreMask mask;
            std::memcpy(mask.words.data(), &event.id, 40);
            return ledger.define_cores(process, event.cores, mask);
        }
        case 10:
            ledger.release_process(process);
            // 8 open two at most: an index is used again at once
            while (!ledger.valid_process(process)) {
                ledger.open_process();
            }
            for (std::uint32_t i = 0; i < 3; ++i) {
                ledger.bind(process, i, i);
            }
            return;
        default: ledger.apply(process, &event, 1, ~0ull >> 1);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2) {
        return 0;
    }
    Ledger ledger(MAX_LIVE, MAX_STEPS, 1);
    for (std::uint32_t i = 0; i < 3; ++i) {
        ledger.add_device();
    }
    for (std::uint32_t process = 0; process < 2; ++process) {
        ledger.open_process();
        for (std::uint32_t i = 0; i < 3; ++i) {
            ledger.bind(process, i, i);
        }
        CoreMask few, some;
        few.words[0] = 1, some.words[0] = 7, some.words[3] = 8;
        ledger.define_cores(process, 1, few);
        ledger.define_cores(process, 2, some);
    }
    allocations_left = (data[0] | data[1] << 8) - 1;
    for (std::size_t at = 2; at < size; at += 1 + sizeof(Event)) {
        Event event{};
        std::memcpy(&event, data + at + 1, std::min(size - at - 1, sizeof event));
        try {
            step(ledger, data[at], event);
        } catch (const std::bad_alloc&) {
            law(allocations_left < 0);
        }
    }
    allocations_left = -1;
    check(ledger);
    for (std::uint32_t process = 0; process < 2; ++process) {
        if (ledger.valid_process(process)) {
            ledger.release_process(process);
        }
    }
    check(ledger);
    law(ledger.live() == 0);
    return 0;
}
