# SPDX-License-Identifier: Apache-2.0
# posix.sh - each share of wherry.suite behaves as a file system does.
. /test/lib.sh

for tag in $(word suite | tr , ' '); do
	share_run_suite "$tag"
done
