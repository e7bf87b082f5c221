// The runtime's device objects: which chips one of them stands for, and what it says of their memory.
#pragma once

#include "device_groups.hpp"

namespace ttmem::probe {

// Of an IDevice*: a MeshDevice stands for all of its chips, a Device for one. Mask 0 if that cannot be told.
DeviceGroup group_of_device(Region& region, const void* device);

// Of a MeshCommandQueue*, which keeps a pointer to its MeshDevice.
DeviceGroup group_of_queue(Region& region, const void* queue);
const void* mesh_of_queue(const void* queue);  // null if that cannot be told

int mesh_id(const void* mesh_device);

// Of an IDevice*: tells meshes apart, also those of the same chips, whose allocators are not the same. 0: it is none.
std::uint32_t mesh_number(const void* device);

// Of a MeshDeviceImpl*.
DeviceGroup group_of_mesh(Region& region, const void* mesh);

// Publishes grid, banks and capacities of a mesh's chips, in the runtime's own figures.
DeviceGroup declare_mesh(Region& region, const void* mesh);

// Changes whenever a device object is made or destroyed: an address may mean another device from then on.
extern std::atomic<std::uint64_t> device_generation;
void devices_changed();

void forget_runtime_devices();  // in the child of a fork

}  // namespace ttmem::probe
