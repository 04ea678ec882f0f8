#!/bin/bash
# layers.sh: the arrows of ARCHITECTURE.md. A rule that grep can check stays true.
set -u
cd "$(dirname "$0")/.." || exit 1
bad=0
rule() { # what is broken, then a grep that must find nothing
	local why=$1
	shift
	if grep -nE "$@" /dev/null; then
		echo "layers: $why" >&2
		bad=1
	fi
}
rule "vmm/ includes nothing from above" '#include "(\.\./)?(devices|cmd)/' vmm/*.[ch]
rule "devices/ never includes cmd/" '#include "(\.\./)?cmd/' devices/*.[ch]
rule "devices/ never includes vcpu, boot or the architecture" \
	'#include "../vmm/(vcpu|boot)\.h' devices/*.[ch]
rule "only the PCI host and the mmio transport know addresses of the architecture" '#include "../vmm/arch\.h' \
	$(ls devices/*.[ch] | grep -v -e pci.c -e virtio_mmio.c)
rule "servers do not know what carries them" '#include "(virtio|virtq|pci)' devices/fuse*.[ch] devices/p9*.[ch] devices/wire.[ch] devices/share*.[ch]
rule "the file layer does not speak a protocol" '\b(FUSE_|P9_|fuse_|p9_)' devices/share*.[ch]
rule "protocols and glue make no file system calls" \
	'\b(openat2?|fstatat|statx|unlinkat|renameat2?|mkdirat|linkat|symlinkat|mknodat|preadv2?|pwritev2?|getxattr|setxattr|getdents64)\(' \
	devices/fuse*.c devices/p9*.c devices/wire.c devices/virtio_fs.c devices/virtio_9p.c
rule "only ring and memory code casts guest bytes" 'mem_span\(' \
	$(ls devices/*.c | grep -v -e virtq.c)
rule "messages go through log.h" '\b(fprintf|perror)\(' vmm/*.c devices/*.c
exit $bad
