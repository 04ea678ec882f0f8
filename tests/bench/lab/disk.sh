# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154,SC2317
# disk.sh: who serves the disk of the guest that run.sh runs; sourced by bench-lab.sh.
#
# 4k random reads of /dev/vda, O_DIRECT in the guest, by two processes that each make one at a time, 1000 each. The disk
# is a raw file of 16 MiB on tmpfs.

disk_data() {
	disk=$work/disk
	head -c 16M /dev/urandom >"$disk"
}

# ---- contenders: disk_NAME runs the machine ----

disk_on_wherry() { # KEYS
	guest_on_wherry "\"drives\": [{\"drive_id\": \"disk\", \"path_on_host\": \"$disk\"$1}]"
}
disk_wherry() { disk_on_wherry ""; }
disk_wherry_sleep() { disk_on_wherry ', "poll_us": 0'; }
# As on hardware: all takes some twenty times as long here, so 50 us are too short, and QEMU's 32.
disk_wherry_poll() { disk_on_wherry ', "poll_us": 1000'; }
disk_on_qemu() { # IOTHREAD
	guest_on_qemu -object "iothread,id=io$1" -device virtio-blk-pci,drive=d,iothread=io \
		-blockdev "driver=file,node-name=d,filename=$disk,aio=io_uring"
}
disk_qemu() { disk_on_qemu ""; }
disk_qemu_sleep() { disk_on_qemu ,poll-max-ns=0; }
disk_qemu_poll() { disk_on_qemu ,poll-max-ns=640000; }

disk_guest() { echo "bench.fs=none bench.work=empty,diskread"; }
disk_contenders() {
	echo "wherry wherry_sleep wherry_poll"
	command -v qemu-system-x86_64 >/dev/null && echo "qemu qemu_sleep qemu_poll"
}
