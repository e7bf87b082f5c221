// What a test calls: the runtime's functions in the order in which the runtime calls them, as plain C.
#include "tt_metal.hpp"

using namespace tt::tt_metal;

#define CONTROL extern "C" __attribute__((visibility("default")))

CONTROL void* mesh_open_grid(const int* chips, int rows, int columns) {
    static int number = 0;
    auto* mesh = new distributed::MeshDevice;
    mesh->number = number++;
    mesh->impl.columns = columns;
    mesh->impl.chips.assign(chips, chips + rows * columns);
    Inspector::mesh_device_initialized(&mesh->impl);
    return mesh;
}

CONTROL void* submesh_open(int first, int chips) {
    std::vector<int> row;
    for (int chip = first; chip < first + chips; ++chip) {
        row.push_back(chip);
    }
    return mesh_open_grid(row.data(), 1, chips);
}

CONTROL void* mesh_open_from(int chips, std::uint64_t first_id) {
    for (int chip = 0; chip < chips; ++chip) {
        SharedMemoryStatsProvider(first_id + chip, chip, false, false);
    }
    return submesh_open(0, chips);
}

CONTROL void* mesh_open(int chips) { return mesh_open_from(chips, 1000); }

// Other meshes have the same devices: they stay open.
CONTROL void mesh_close_alone(void* handle) {
    auto* mesh = static_cast<distributed::MeshDevice*>(handle);
    mesh->impl.shared = true;
    mesh->impl.close_impl(mesh);
}

CONTROL void mesh_close(void* handle) {
    auto* mesh = static_cast<distributed::MeshDevice*>(handle);
    mesh->impl.close_impl(mesh);
    delete mesh;
}

CONTROL void* buffer_make(void* mesh, std::uint64_t number, int type, std::uint64_t bytes, std::uint64_t per_bank) {
    auto* buffer = new Buffer;
    buffer->where = static_cast<distributed::MeshDevice*>(mesh);
    buffer->bytes = bytes;
    buffer->type = static_cast<BufferType>(type);
    buffer->number = number;
    buffer->per_bank = per_bank;
    buffer->place = static_cast<std::uint32_t>(0x100000 + number * 64);
    return buffer;
}

// 1 if the runtime refused.
CONTROL int buffer_allocate(void* handle) {
    try {
        AllocatorImpl().allocate_buffer(static_cast<Buffer*>(handle));
    } catch (const std::runtime_error&) {
        return 1;
    }
    GraphTracker().track_allocate(static_cast<Buffer*>(handle));
    return 0;
}

CONTROL void buffer_free(void* handle) {
    GraphTracker().track_deallocate(static_cast<Buffer*>(handle));
    delete static_cast<Buffer*>(handle);
}

CONTROL void churn(void* mesh, std::uint64_t first, std::uint64_t pairs) {
    for (std::uint64_t number = first; number < first + pairs; ++number) {
        void* buffer = buffer_make(mesh, number, 0, 4096, 512);
        buffer_allocate(buffer);
        buffer_free(buffer);
    }
}

// One that its workload lays out when it is dispatched.
CONTROL void* program_plan(std::uint64_t number, void* mesh, std::uint64_t cb_size, int cbs) {
    auto* program = new detail::ProgramImpl;
    program->number = number;
    program->sizes.assign(static_cast<std::size_t>(cbs), cb_size);
    for (const int chip : static_cast<distributed::MeshDevice*>(mesh)->impl.chips) {
        program->devices.push_back(new Device(chip));
    }
    Inspector::program_created(program);
    return program;
}

// The size of a circular buffer was changed: the runtime lays the program out once more.
CONTROL void program_lay_out(void* handle, void* mesh) {
    auto* program = static_cast<detail::ProgramImpl*>(handle);
    program->allocate_circular_buffers(static_cast<distributed::MeshDevice*>(mesh));
    program->validate_circular_buffer_region(static_cast<distributed::MeshDevice*>(mesh));
}

// The next dispatch of its workload lays it out.
CONTROL void program_resize(void* handle, std::uint64_t cb_size) {
    auto* program = static_cast<detail::ProgramImpl*>(handle);
    program->sizes.assign(program->sizes.size(), cb_size);
    program->laid_out = false;
}

// One that is in no workload: the runtime lays it out by itself.
CONTROL void* program_make(std::uint64_t number, void* mesh, std::uint64_t cb_size, int cbs) {
    void* program = program_plan(number, mesh, cb_size, cbs);
    program_lay_out(program, mesh);
    return program;
}

CONTROL void program_destroy(void* handle) {
    auto* program = static_cast<detail::ProgramImpl*>(handle);
    program->deallocate_circular_buffers();
    Inspector::program_destroyed(program);
    for (IDevice* device : program->devices) {
        delete device;
    }
    delete program;
}

#ifndef HALF
CONTROL void program_lay_out_dataflow(void* handle, void* mesh) {
    static_cast<detail::ProgramImpl*>(handle)->allocate_dataflow_buffers(static_cast<distributed::MeshDevice*>(mesh));
}

// The runtime keeps a captured trace in a buffer of its own kind.
CONTROL void trace_capture(void* handle, std::uint32_t id, void* buffer) {
    auto& mesh = static_cast<distributed::MeshDevice*>(handle)->impl;
    const distributed::MeshTraceId trace{id};
    mesh.begin_mesh_trace(0, trace);
    buffer_allocate(buffer);
    mesh.end_mesh_trace(0, trace);
}

CONTROL void trace_replay(void* handle, std::uint32_t id) {
    static_cast<distributed::MeshDevice*>(handle)->impl.replay_mesh_trace(0, distributed::MeshTraceId{id}, false);
}

CONTROL void trace_release(void* handle, std::uint32_t id, void* buffer) {
    static_cast<distributed::MeshDevice*>(handle)->impl.release_mesh_trace(distributed::MeshTraceId{id});
    buffer_free(buffer);
}
#endif
