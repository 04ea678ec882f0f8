#!/usr/bin/awk -f
# SPDX-License-Identifier: Apache-2.0
# table.awk GOALS RESULTS   medians, ratios and goals of what measure.sh noted, a block per row
#
# of qemu: to the better of virtiofsd's settings; of floor: to the better of the floor's two; of native: to the host's own
# calls. cpu: microseconds of the device's side per operation. spread: (largest - least) / median.

function median(s,   v, m, i, j, t) {
	m = split(s, v, " ")
	for (i = 2; i <= m; i++)
		for (j = i; j > 1 && v[j - 1] + 0 > v[j] + 0; j--) {
			t = v[j]; v[j] = v[j - 1]; v[j - 1] = t
		}
	least = v[1]; largest = v[m]
	return m % 2 ? v[(m + 1) / 2] : (v[m / 2] + v[m / 2 + 1]) / 2
}

function is_of(who, family) { return who == family || index(who, family "_") == 1 }

# The best of a family (qemu, floor, or one name alone) in a row; 0 if nobody is there.
function best(row, family,   w, m, b) {
	b = 0
	for (w = 1; w <= nwhos; w++)
		if (is_of(names[w], family) && (row, names[w]) in iops) {
			m = median(iops[row, names[w]])
			if (m > b) b = m
		}
	return b
}
# The CPU time of that best one.
function best_cpu(row, family,   w, m, b, c) {
	b = c = 0
	for (w = 1; w <= nwhos; w++)
		if (is_of(names[w], family) && (row, names[w]) in iops) {
			m = median(iops[row, names[w]])
			if (m > b) {
				b = m
				c = median(cpu[row, names[w]])
			}
		}
	return c
}

# What goal g compares in this row; "" if it cannot be known.
function value(row, who, what,   b) {
	if (!((row, who) in iops)) return ""
	if (what == "kicks") return median(kicks[row, who])
	if (what == "cpu") {
		b = best_cpu(row, "qemu")
		return b ? median(cpu[row, who]) / b : ""
	}
	b = best(row, what)
	return b ? median(iops[row, who]) / b : ""
}

function judge(g, row,   v, good) {
	if (row !~ "^" goal_row[g] "$") return
	v = value(row, goal_who[g], goal_what[g])
	if (v == "") return
	good = goal_rel[g] == ">=" ? v >= goal_value[g] : v <= goal_value[g]
	text = sprintf("%s: %s %s %s: %s (%.*f)", goal_who[g], goal_what[g], goal_rel[g], goal_value[g], good ? "met" : "MISSED",
		goal_what[g] == "kicks" ? 3 : 2, v)
	printf "    goal %s\n", text
	if (good) met++
	else missed[++nmissed] = row "  " text
}

function contender(row, who, qemu, floor, host, qemu_cpu,   m, spread, c) {
	m = median(iops[row, who])
	spread = m ? (largest - least) * 100 / m : 0
	printf "    %-13s %9d /s", who, m
	printf qemu ? sprintf("  %6.2f of qemu", m / qemu) : "%16s", ""
	printf floor ? sprintf("  %5.2f of floor", m / floor) : "%16s", ""
	printf host ? sprintf("  %5.2f of native", m / host) : "%17s", ""
	if (who == "native") printf "%35s", ""
	else {
		c = median(cpu[row, who])
		printf "  kicks %.3f  cpu %7.2f us", median(kicks[row, who]), c
		printf qemu_cpu ? sprintf(" (%.2f)", c / qemu_cpu) : "%7s", ""
	}
	printf "  spread %d%%\n", spread
}

FNR == 1 { file++ }
/^#/ || NF == 0 { next }
file == 1 {
	n = ++ngoals
	goal_row[n] = $1; goal_who[n] = $2; goal_what[n] = $3; goal_rel[n] = $4; goal_value[n] = $5
	next
}
{
	row = $1 "/" $2 "/" $3 "/" $4
	if (!(row in seen)) { seen[row]; rows[++nrows] = row }
	if (!($5 in whos)) { whos[$5]; names[++nwhos] = $5 }
	iops[row, $5] = iops[row, $5] " " $6
	kicks[row, $5] = kicks[row, $5] " " ($8 ? $7 / $8 : 0)
	cpu[row, $5] = cpu[row, $5] " " ($10 ? $9 / $10 / 1000 : 0)
	errors[$5] += $11
}
END {
	for (i = 1; i <= nrows; i++) {
		row = rows[i]
		split(row, part, "/")
		printf "\n%s: %s%s, depth %d\n", part[1], part[2], part[3] ? " " part[3] : "", part[4]
		qemu = best(row, "qemu"); floor = best(row, "floor"); host = best(row, "native"); qemu_cpu = best_cpu(row, "qemu")
		for (w = 1; w <= nwhos; w++)
			if ((row, names[w]) in iops) contender(row, names[w], qemu, floor, host, qemu_cpu)
		for (g = 1; g <= ngoals; g++) judge(g, row)
	}
	if (met + nmissed) printf "\ngoals: %d met, %d missed\n", met, nmissed
	for (i = 1; i <= nmissed; i++) print "  " missed[i]
	for (w in errors) if (errors[w]) printf "\nWRONG: %s gave %d wrong answers\n", w, errors[w]
}
