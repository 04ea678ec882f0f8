# SPDX-License-Identifier: Apache-2.0
# machine.sh - CPUs and memory are those of the config (wherry.cpus, wherry.mem in MiB).
. /test/lib.sh
cpus=$(word cpus) mem=$(word mem)

# The kernel keeps its own image and a page struct per page: 1/64 and some 70 MiB.
memory_fits() {
	total=$(awk '/MemTotal/ { print int($2 / 1024) }' /proc/meminfo)
	echo "MemTotal $total MiB of $mem"
	[ "$total" -le "$mem" ] && [ "$total" -ge $((mem - mem / 32 - 70)) ]
}
complaints() {
	dmesg | grep -E 'Firmware Bug|ACPI( BIOS)? Error|MP-BIOS bug|Marking TSC unstable|BUG:|WARNING:'
}
ok "$cpus CPUs are up" test "$(nproc)" = "$cpus"
ok "the memory is there ($mem MiB)" memory_fits
no "the kernel has no complaint about the machine" complaints
