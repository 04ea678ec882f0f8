# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: Apache-2.0
# guests.sh - the guests of `make check-guest`; sourced by driver.sh. Those of `make check-guest-long`: long.sh
#
# A guest is a function that sets what differs from the defaults (guest_defaults in driver.sh) and names its shares:
#   share TAG [KEY=VALUE...]   a share of the directory TAG of this guest, with wherry's keys; mount=OPTIONS are the guest's
#   suite TAG [KEY=VALUE...]   the same, and the file system suite runs on it (guest/test/posix.sh)
#   p9, suite_p9               the same by virtio-9p
#   drive ID [KEY=VALUE...]    a disk, with wherry's keys; image_size=SIZE makes an empty one
# Many things are tried in one boot, since a boot is what costs here.

guests=(limit pci mmio big bare intx terminal firecracker caches user mounts dax root p9 root_p9 disk_crash)

guest_limit() { # nothing to do, and no end: idle CPUs must be ended too
	run=none end=hang limit=20 status=124 said='time limit'
}
guest_pci() { # the usual machine, and most of the tests
	cpus=2 run=machine,irq,share,posix,disk,rng,rebind,input irq=msix
	suite share posix_acl=true
	status=0 said='powered off'
}
guest_mmio() { # the other transport, the 64-bit entry, the least memory, the reset register
	kernel=vmlinux-nonote mem=128 transport=mmio run=machine,irq,share,posix,disk,rng,p9,rebind irq=mmio
	suite share cache=always writeback=true
	p9 p9 mount=cache=loose
	args=reboot=a end=reboot status=0 said='rebooted'
}
guest_big() { # Debian's bzImage, memory above 4 GiB, a panic
	kernel=vmlinuz cpus=4 mem=5120 run=machine,share,disk end=panic status=120 said='panicked'
}
guest_bare() { # neither ACPI nor PCI: MP table, windows on the command line
	cpus=2 transport=mmio initrd=initrd-mmio.gz args='acpi=off pci=off reboot=k' run=machine,irq,share,disk irq=mmio
	end=reboot status=0 said='rebooted'
}
guest_intx() { # no MSI; reboot=t is a triple fault
	args='pci=nomsi reboot=t' run=irq,share,disk irq=intx end=reboot status=121 said='triple fault'
}
guest_terminal() { # the console on a terminal; Ctrl-A x ends the machine and gives the terminal back
	tty=1 run=input end=hang status=0 said='ended by'
}
guest_firecracker() { # a configuration as Firecracker's users have it; the root device is a disk
	status=0 said='rebooted' run=rootfs
}
guest_caches() { # what each cache mode promises of the host's changes; a share that refuses all change
	run=coherence,readonly,posix limit=900
	suite never cache=never locks=host
	share auto cache=auto
	share always cache=always
	share writeback cache=always writeback=true
}
guest_user() { # wherry as a plain user: the owner modes that need no root
	user=65534 run=posix limit=900
	suite squash owner=squash
	suite mapped owner=mapped
}
guest_mounts() { # file systems mounted below a share and over it, few descriptors, a full disk
	run=submounts,budget,overlay limit=900 root=1 files=1000
	share submounts
	share flat submounts=false
	share budget fd_budget=64
	share overlay submounts=false
}
guest_dax() { # the window, smaller than what is mapped through it
	run=dax,posix limit=900
	suite share dax=8 mount=dax
	share inode dax=8 dax_policy=inode
}
guest_p9() { # the other protocol: both ways without a cache, a server that locks, a share that refuses all change
	run=p9,readonly,coherence,posix limit=900 many=50 rounds=100
	p9 p9 mount=cache=none
	p9 readonly readonly=true mount=cache=none
	suite_p9 none locks=host posix_acl=true mount=cache=none,access=client,posixacl,msize=512000
	# What takes long, the first has shown.
	suite_p9 mmap mount=cache=mmap,access=user,msize=131072 without=deep+vectors+seek+many+list_meanwhile+list_and_unlink+every_byte+threads_one_directory+threads_exclusive+getcwd
	p9 loose mount=cache=loose,msize=512000
	tells="$tells wherry.coherent=none,loose"
}
guest_root() { # the root directory is a share
	run=rootfs args='root=rootfs rootfstype=virtiofs rw reboot=k' end=reboot status=0 said='rebooted'
	share rootfs
}
guest_root_p9() {
	run=rootfs args='root=rootfs rootfstype=9p rootflags=trans=virtio,version=9p2000.L,msize=131072 rw reboot=k' end=reboot status=0 said='rebooted'
	p9 rootfs
}
guest_disk_crash() { # wherry is killed while two disks are written
	run=crash status=137 tells='wherry.disks=cached,direct'
	drive cached
	drive direct direct=true
}
