// Kernels, workloads and dispatch: what a mocked device leaves out, in the order in which the runtime does it.
#include <exception>
#include <mutex>
#include <thread>

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

#ifndef NO_RANGES
std::span<const std::uint32_t> MeshCoordinate::coords() const { return {first, 2}; }
const MeshCoordinate& MeshCoordinateRange::start_coord() const { return start; }
const MeshCoordinate& MeshCoordinateRange::end_coord() const { return end; }
MeshCoordinate MeshDeviceView::find_device(int chip) const {
    std::uint32_t at = 0;
    while (mesh->chips[at] != chip) {
        ++at;
    }
    const auto columns = static_cast<std::uint32_t>(mesh->columns);
    return {at / columns, at % columns};
}
const MeshDeviceView& MeshDevice::get_view() const { return view; }
#endif

// For the whole mesh, whatever the range of the program.
static void compile_and_allocate(detail::ProgramImpl& program, MeshDevice* device, bool compiled) {
    for (const auto& kernel : compiled ? std::vector<std::shared_ptr<Kernel>>{} : program.kernels) {
        Inspector::program_kernel_compile_finished(&program, device, kernel, {}, "/cache/");
    }
    if (!compiled) {
        Inspector::program_compile_finished(&program, device, 1);
    }
    if (!program.laid_out) {
        program.allocate_circular_buffers(device);
    }
    program.validate_circular_buffer_region(device);
}

// Several programs are compiled by threads; what one of them throws is thrown when all are through.
static void compile_in_threads(const std::vector<Program>& programs, MeshDevice* device, bool compiled) {
    std::vector<std::thread> threads;
    std::exception_ptr problem;
    std::mutex one_at_a_time;
    for (const Program& program : programs) {
        threads.emplace_back([&] {
            try {
                compile_and_allocate(*program.implementation, device, compiled);
            } catch (...) {
                const std::lock_guard lock(one_at_a_time);
                problem = std::current_exception();
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    if (problem) {
        std::rethrow_exception(problem);
    }
}

void MeshWorkloadImpl::compile(MeshDevice* device) {
    if (programs.size() == 1) {
        compile_and_allocate(*programs.front().implementation, device, compiled);
    } else {
        compile_in_threads(programs, device, compiled);
    }
    compiled = true;
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

// On the chips from the first coordinate to the last.
CONTROL void workload_add(void* workload, void* program, std::uint32_t row, std::uint32_t column, std::uint32_t last_row,
                          std::uint32_t last_column) {
    const distributed::MeshCoordinateRange range{{row, column}, {last_row, last_column}};
    static_cast<distributed::MeshWorkload*>(workload)->implementation->add_program(
        range, {static_cast<detail::ProgramImpl*>(program)});
}

// `program` is for the whole mesh; null: none yet. `binaries` is the buffer that its kernels go to; null on a mocked device.
CONTROL void* workload_make(void* mesh, void* program, void* binaries) {
    auto* all = new distributed::MeshWorkloadImpl;
    all->mesh = static_cast<distributed::MeshDevice*>(mesh);
    all->binaries = static_cast<Buffer*>(binaries);
    auto* workload = new distributed::MeshWorkload{all};
    const auto columns = static_cast<std::uint32_t>(all->mesh->impl.columns);
    const auto rows = static_cast<std::uint32_t>(all->mesh->impl.chips.size()) / columns;
    if (program) {
        workload_add(workload, program, 0, 0, rows - 1, columns - 1);
    }
    return workload;
}

// 1 if the runtime refused.
CONTROL int workload_enqueue(void* workload) {
    auto& handle = *static_cast<distributed::MeshWorkload*>(workload);
    try {
        distributed::EnqueueMeshWorkload(handle.implementation->mesh->queue, handle, false);
    } catch (const std::runtime_error&) {
        return 1;
    }
    return 0;
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
