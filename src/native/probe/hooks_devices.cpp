// Devices and meshes are opened and closed; traces are captured, replayed and released on them.
// When devices open and close: small code is preferred.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("Os")
#endif

#include "accounts.hpp"
#include "features.hpp"
#include "notices.hpp"
#include "python_operations.hpp"
#include "recording.hpp"
#include "runtime_devices.hpp"

namespace ttmem::probe {

namespace {

#define TT_MESH_DEVICE "_ZN2tt8tt_metal11distributed14MeshDeviceImpl"
#define TT_TRACE_ID "N4ttsl10StrongTypeIjNS1_14MeshTraceIdTagEEE"

void opened(const Recording& recording, const void* mesh) {
    Region& region = recording.region();
    look_for_features(region);
    const DeviceGroup group = declare_mesh(region, mesh);
    count(region, group.mask, &Activity::opened);
    append(region, recording.thread(), notice(DEVICE_OPENED, group, 0));
}

// What is still allocated when a device or mesh is closed is gone with its allocator, without a call by the runtime.
// The events say that nobody freed it: `ttmem dump` lists it after the end.
template <typename Goes>
void release_left(const Recording& recording, Goes goes) {
    Region& region = recording.region();
    for (std::uint32_t place = 0; place < region.counts[LIVE]; ++place) {
        const std::uint64_t key = region.live_keys[place].load(order::OBSERVE);
        const std::uint64_t type = key >> 56;
        const bool on_a_device = type == BUFFER || type == CIRCULAR_BUFFER || type == KERNEL;
        if (on_a_device && goes(region.live[place])) {
            const Op op = type == BUFFER ? FREE : type == KERNEL ? KERNEL_UNLOAD : CB_FREE;
            release_with_device(region, recording.thread(), key, op);
        }
    }
}

void closed(const Recording& recording, const DeviceGroup& group) {
    Region& region = recording.region();
    release_left(recording, [&](const LiveEntry& entry) { return mask_of(entry.devices) & group.mask; });
    count_nothing(region, group.mask);
    count(region, group.mask, &Activity::closed);
    append(region, recording.thread(), notice(DEVICE_CLOSED, group, 0));
}

void traced(const Recording& recording, std::uint8_t what, const void* mesh, std::uint32_t id,
            std::atomic<std::uint64_t> Activity::* counter) {
    const DeviceGroup group = group_of_mesh(recording.region(), mesh);
    if (counter) {
        count(recording.region(), group.mask, counter);
    }
    append(recording.region(), recording.thread(), notice(what, group, id));
}

}  // namespace

TTMEM_HOOK(void, on_statistics, "_ZN2tt8tt_metal25SharedMemoryStatsProviderC1Emibb", void*, std::uint64_t, int, bool,
           bool)
void on_statistics(void* provider, std::uint64_t unique_id, int chip, bool third, bool fourth) {
    on_statistics_real(provider, unique_id, chip, third, fourth);
    if (chip >= 0) {
        remember_unique_id(static_cast<std::uint32_t>(chip), unique_id);
    }
}

TTMEM_HOOK(void, on_mesh_made, "_ZN2tt8tt_metal9Inspector23mesh_device_initializedEPKNS0_11distributed14MeshDeviceImplE",
           const void*)
void on_mesh_made(const void* mesh) {
    on_mesh_made_real(mesh);
    devices_changed();
    if (const Recording recording; recording) {
        opened(recording, mesh);
        ask_for_operations();
    }
}

TTMEM_HOOK(void, on_mesh_gone, "_ZN2tt8tt_metal9Inspector21mesh_device_destroyedEPKNS0_11distributed14MeshDeviceImplE",
           const void*)
void on_mesh_gone(const void* mesh) {
    devices_changed();
    on_mesh_gone_real(mesh);
}

// A mesh and its submeshes each have an allocator and a program cache. Whichever closes first takes its buffers and
// programs along; the devices stay open until the last one closes. What the runtime returns, if anything, is passed on.
TTMEM_HOOK(std::uint64_t, on_mesh_close, TT_MESH_DEVICE "10close_implEPNS1_10MeshDeviceE", void*, void*)
std::uint64_t on_mesh_close(void* mesh, void* handle) {
    const std::uint32_t number = handle ? mesh_number(handle) : 0;
    const std::uint64_t done = on_mesh_close_real(mesh, handle);
    if (const Recording recording{mapped_region.load(order::OBSERVE)}; recording && number) {
        release_left(recording, [&](const LiveEntry& entry) { return entry.mesh == number; });
    }
    return done;
}

TTMEM_HOOK(bool, on_close, "_ZN2tt8tt_metal6Device5closeEv", void*)
bool on_close(void* device) {
    DeviceGroup group{0, 0};
    if (const Recording recording{mapped_region.load(order::OBSERVE)}; recording) {
        group = group_of_device(recording.region(), device);
    }
    const bool done = on_close_real(device);
    if (const Recording recording{mapped_region.load(order::OBSERVE)}; recording && group.mask && done) {
        closed(recording, group);
    }
    devices_changed();
    return done;
}

TTMEM_HOOK(void, on_trace_begun, TT_MESH_DEVICE "16begin_mesh_traceEhRK" TT_TRACE_ID, void*, std::uint8_t,
           const std::uint32_t*)
void on_trace_begun(void* mesh, std::uint8_t queue, const std::uint32_t* id) {
    on_trace_begun_real(mesh, queue, id);
    if (const Recording recording; recording) {
        traced(recording, TRACE_BEGUN, mesh, *id, nullptr);
    }
}

TTMEM_HOOK(void, on_trace_captured, TT_MESH_DEVICE "14end_mesh_traceEhRK" TT_TRACE_ID, void*, std::uint8_t,
           const std::uint32_t*)
void on_trace_captured(void* mesh, std::uint8_t queue, const std::uint32_t* id) {
    on_trace_captured_real(mesh, queue, id);
    if (const Recording recording; recording) {
        traced(recording, TRACE_CAPTURED, mesh, *id, &Activity::traces_captured);
    }
}

TTMEM_HOOK(void, on_trace_replayed, TT_MESH_DEVICE "17replay_mesh_traceEhRK" TT_TRACE_ID "b", void*, std::uint8_t,
           const std::uint32_t*, bool)
void on_trace_replayed(void* mesh, std::uint8_t queue, const std::uint32_t* id, bool blocking) {
    if (const Recording recording; recording) {
        traced(recording, TRACE_REPLAYED, mesh, *id, &Activity::traces_replayed);
    }
    on_trace_replayed_real(mesh, queue, id, blocking);
}

TTMEM_HOOK(void, on_trace_released, TT_MESH_DEVICE "18release_mesh_traceERK" TT_TRACE_ID, void*, const std::uint32_t*)
void on_trace_released(void* mesh, const std::uint32_t* id) {
    const std::uint32_t number = *id;
    on_trace_released_real(mesh, id);
    if (const Recording recording; recording) {
        traced(recording, TRACE_RELEASED, mesh, number, nullptr);
    }
}

static const Feature devices{"devices", on_close_real};
static const Feature capacities{"capacities", on_mesh_made_real};
static const Feature closed_meshes{"closed meshes", on_mesh_close_real};
static const Feature unique_ids{"unique ids", on_statistics_real};
static const Feature traces{"traces", on_trace_begun_real, on_trace_captured_real, on_trace_replayed_real,
                            on_trace_released_real};

}  // namespace ttmem::probe
