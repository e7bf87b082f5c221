// Kernels, workloads and dispatch: what a mocked device leaves out, in the order in which the runtime does it.
#include "tt_metal.hpp"

#ifndef HALF

namespace tt::tt_metal {

std::vector<std::string> Kernel::file_paths(const IDevice&, const std::string& root) const {
    return {root + "kernels/" + name + "/1234/brisc/brisc.elf"};
}
std::uint32_t Kernel::get_binary_packed_size(IDevice*, int) const { return packed_size; }
std::vector<CoreRange> Kernel::logical_coreranges() const { return {{{0, 0}, {3, 1}}}; }

void Inspector::program_kernel_compile_finished(const detail::ProgramImpl*, const IDevice*,
                                                const std::shared_ptr<Kernel>&, const JitBuildOptions&,
                                                const std::string&) noexcept {}
void Inspector::program_compile_finished(const detail::ProgramImpl*, const IDevice*, std::uint64_t) noexcept {}
void Inspector::emit_debug_entry(const distributed::MeshWorkloadImpl*, std::uint64_t, std::string_view,
                                 std::vector<TensorSpec>, std::optional<distributed::MeshTraceId>) noexcept {}

static void make_and_drop(std::uint64_t number) {
    detail::ProgramImpl program;
    program.number = number;
    Inspector::program_created(&program);
}
bool Device::compile_fabric() {
    make_and_drop(900);
    return true;
}
void Device::configure_command_queue_programs(DispatchTopology*) { make_and_drop(901); }

namespace distributed {

MeshWorkloadImpl::~MeshWorkloadImpl() {}
void MeshWorkloadImpl::add_program(const MeshCoordinateRange&, Program&& program) { programs.push_back(program); }

void MeshWorkloadImpl::compile(MeshDevice* device) {
    if (!sent) {
        for (const Program& program : programs) {
            for (const auto& kernel : program.implementation->kernels) {
                Inspector::program_kernel_compile_finished(program.implementation, device, kernel, {}, "/cache/");
            }
            Inspector::program_compile_finished(program.implementation, device, 1);
        }
    }
    mesh = device;
    finalize_offsets(device);
}
void MeshWorkloadImpl::finalize_offsets(MeshDevice*) {}
void MeshWorkloadImpl::load_binaries(MeshCommandQueue&) {
    if (!sent && binaries) {
        GraphTracker().track_allocate(binaries);
    }
    sent = true;
}
void MeshWorkloadImpl::set_program_binary_status(std::size_t, ProgramBinaryStatus now) { status = now; }
ProgramBinaryStatus MeshWorkloadImpl::get_program_binary_status(std::size_t) const { return status; }

void EnqueueMeshWorkload(MeshCommandQueue& queue, MeshWorkload& workload, bool) {
    MeshWorkloadImpl& all = *workload.implementation;
    all.compile(all.mesh);
    all.load_binaries(queue);
    Inspector::emit_debug_entry(&all, 1, "Matmul", {}, std::nullopt);
    all.set_program_binary_status(0, ProgramBinaryStatus::Committed);
}

}  // namespace distributed
}  // namespace tt::tt_metal

using namespace tt::tt_metal;

#define CONTROL extern "C" __attribute__((visibility("default")))

CONTROL void program_add_kernel(void* program, const char* name, std::uint32_t packed_size) {
    auto kernel = std::make_shared<Kernel>(Kernel{name, packed_size});
    static_cast<detail::ProgramImpl*>(program)->kernels.push_back(kernel);
}

// `binaries` is the buffer that its kernels go to; null on a mocked device.
CONTROL void* workload_make(void* mesh, void* program, void* binaries) {
    auto* all = new distributed::MeshWorkloadImpl;
    all->mesh = static_cast<distributed::MeshDevice*>(mesh);
    all->binaries = static_cast<Buffer*>(binaries);
    all->add_program({}, {static_cast<detail::ProgramImpl*>(program)});
    return new distributed::MeshWorkload{all};
}

CONTROL void workload_enqueue(void* workload) {
    auto& handle = *static_cast<distributed::MeshWorkload*>(workload);
    distributed::EnqueueMeshWorkload(handle.implementation->mesh->queue, handle, false);
}

CONTROL void workload_destroy(void* handle) {
    auto* workload = static_cast<distributed::MeshWorkload*>(handle);
    delete workload->implementation;
    delete workload;
}

CONTROL void device_start(int chip) {
    Device device(chip);
    DispatchTopology topology;
    device.compile_fabric();
    device.configure_command_queue_programs(&topology);
}

#endif
