// The runtime's device objects: which chips one of them stands for, and what it says of their memory.
#pragma once

#include "device_groups.hpp"

namespace ttmem::probe {

// Of an IDevice*: a MeshDevice stands for all of its chips, a Device for one. Mask 0 if that cannot be told.
DeviceGroup group_of_device(Region& region, const void* device);

// Of a MeshDeviceImpl*.
DeviceGroup group_of_mesh(Region& region, const void* mesh);

// Publishes grid, banks and capacities of a mesh's chips, in the runtime's own figures.
DeviceGroup declare_mesh(Region& region, const void* mesh);

// A device object was made or destroyed: an address may mean another device from now on.
void devices_changed();

void forget_runtime_devices();  // in the child of a fork

}  // namespace ttmem::probe
