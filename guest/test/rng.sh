# SPDX-License-Identifier: Apache-2.0
# rng.sh - the host's randomness arrives through /dev/hwrng.
. /test/lib.sh

modprobe virtio-rng
varied() { # more than half of the byte values come up in 4 KiB
	[ "$(dd if=/dev/hwrng bs=1024 count=4 2>/dev/null | od -An -v -tu1 | tr -s ' ' '\n' | sort -u | wc -l)" -gt 128 ]
}
ok "the generator is virtio's" grep virtio_rng /sys/class/misc/hw_random/rng_current
ok "/dev/hwrng gives varied bytes" varied
