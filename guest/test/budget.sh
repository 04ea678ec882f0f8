# SPDX-License-Identifier: Apache-2.0
# budget.sh - a share that may hold few descriptors serves many files: walked, read, held open, again and again.
. /test/lib.sh

count() { find . 2>/tmp/errors | wc -l; }
walked() { [ "$(count)" = "$(word files)" ] && ! [ -s /tmp/errors ]; }
read_all() {
	[ "$(find . -type f -exec cat {} + 2>/tmp/errors | sort | sha256sum | cut -d' ' -f1)" = "$(word filessum)" ] && ! [ -s /tmp/errors ]
}
open_many() { # fifteen at once, in one shell
	script='' n=0
	for f in $(find . -type f | head -n 15); do
		fd=$((10 + n)) n=$((n + 1))
		script="$script exec $fd<$f;"
	done
	sh -c "$script find . 2>&1 >/dev/null | grep . && exit 1; cat <&24 | grep -q file"
}
ok "the share of few descriptors mounts" share_mount budget /mnt/budget
cd /mnt/budget || exit
ok "many files are walked" walked
ok "many files are walked again" walked
ok "many files are read" read_all
ok "fifteen of them are open while all are walked" open_many
ok "files are made and removed beside them" sh -c 'mkdir made && for i in $(seq 100); do echo $i >made/$i; done && test $(ls made | wc -l) = 100 && rm -r made'
exec 3<>unlinked
echo kept >&3
rm unlinked
ok "many files are walked while an unlinked one is open" walked
ok "the unlinked file is still there" grep kept /proc/self/fd/3
exec 3>&-
echo 3 >/proc/sys/vm/drop_caches
ok "all is well when the guest has forgotten" walked
cd /
ok "the share of few descriptors is unmounted" umount /mnt/budget
