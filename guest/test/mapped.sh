# SPDX-License-Identifier: Apache-2.0
# mapped.sh - trees of files of several owners, modes and kinds on the share "tree", made, changed and listed.
#
# wherry.steps=VERB:TREE:TAG[:AS],...: make, change or list the tree TREE, on the share TAG. A line of a listing is
# "@= AS: ..."; the host compares those of this server with those of another (tests/guest/scripts.sh).
. /test/lib.sh

long=$(head -c 3000 /dev/zero | tr '\0' x)

make_tree() {
	mkdir -p dir/deeper shared sticky 'a name with spaces' && echo text >file && : >empty && echo deep >dir/deeper/file || return 1
	head -c 100000 /dev/zero | tr '\0' y >large
	echo 'echo set-id' >set-id && echo closed >closed && echo given >given && ln file dir/linked && ln -s file link || return 1
	ln -s "../none/$long" dangling && ln -s 'a target with spaces' 'a name with spaces/link' && mkfifo fifo || return 1
	mknod null c 1 3 && mknod disk b 259 1048575 && mknod tty c 4095 255 || return 1
	chown 1000:1001 file && chown 70000:4000000000 given && chown 5:6 fifo null && chown -h 7:8 link && chown 33:33 shared || return 1
	chmod 4755 set-id && chmod 0 closed && chmod 640 file && chmod 2775 shared && chmod 1777 sticky && chmod 666 null && chmod 600 disk
}
change_tree() {
	echo more >>file && chmod 4711 file && chown 2000:2001 closed && chmod 444 closed && mv given dir/given || return 1
	rm dir/linked set-id fifo && ln -sf elsewhere link && ln dir/deeper/file linked-again && mkfifo dir/fifo || return 1
	chown 9:10 tty && chmod 20 tty && mv null 'a name with spaces/null' && chmod 700 shared && chown 0:0 shared || return 1
	mkdir shared/new && echo new >shared/new/file && chown -R 3000:3001 shared/new && rmdir sticky && : >large
}
list_tree() { # HEAD
	find . | sort | while IFS= read -r f; do
		case $(stat -c %F "$f") in
		*regular*) what="$(stat -c %s "$f") $(sha256sum <"$f" | cut -c 1-16)" ;;
		symbolic*) what="$(stat -c %s "$f") $(readlink "$f" | sha256sum | cut -c 1-16)" ;;
		*special*) what=$(stat -c %t,%T "$f") ;;
		*) what='' ;;
		esac
		echo "@= $1: $f $(stat -c '%A %u:%g %h %Y' "$f") $what"
	done
}
for tag in tree treefs; do
	[ "$(share_key $tag owner none)" = none ] || ok "$tag: the share mounts" share_mount $tag /mnt/$tag
done
for step in $(word steps | tr , ' '); do
	IFS=: read -r verb tree tag as <<-END
		$step
	END
	cd "/mnt/$tag" || exit
	[ "$verb" != make ] || { rm -rf "$tree" && mkdir "$tree"; }
	cd "$tree" || exit
	case $verb in
	make) ok "$tag: the tree $tree is made" make_tree ;;
	change) ok "$tag: the tree $tree is changed" change_tree ;;
	list) list_tree "$as" ;;
	esac
done
cd /
sync
